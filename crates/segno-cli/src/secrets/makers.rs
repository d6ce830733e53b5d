//! Credentials that begin with a mark of their maker.
//!
//! Responsible for: the table of them. Must not: hold what has no mark of its own; that is found by what
//! stands around it.

/// Bytes that a credential is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Alphabet {
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `-` and `_`.
    Word,
    /// Letters, digits, `-`, `_` and `.`.
    Dotted,
    /// Capitals and digits.
    Upper,
    /// Hexadecimal digits.
    Hex,
    /// What a path in an address may hold.
    Path,
    /// Base64.
    Base64,
    /// Base64 in either of its two forms.
    Base64Url,
    /// Base64 in an address.
    Url,
}

impl Alphabet {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Path => byte.is_ascii_alphanumeric() || b"-_/".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/=".contains(&byte),
            Self::Url => byte.is_ascii_alphanumeric() || b"+/=%".contains(&byte),
            Self::Base64Url => byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte),
        }
    }
}

/// Credentials that begin with a mark of their maker.
pub(super) struct Token {
    pub(super) label: &'static str,
    pub(super) prefix: &'static str,
    pub(super) alphabet: Alphabet,
    /// How many bytes follow the prefix at least, and at most.
    pub(super) least: usize,
    pub(super) most: usize,
}

const fn token(
    label: &'static str,
    prefix: &'static str,
    alphabet: Alphabet,
    least: usize,
    most: usize,
) -> Token {
    Token { label, prefix, alphabet, least, most }
}

const ANY: usize = usize::MAX;

/// A longer prefix stands before a shorter one that it begins with.
pub(super) const TOKENS: &[Token] = &[
    token("anthropic-key", "sk-ant-", Alphabet::Word, 20, ANY),
    token("openrouter-key", "sk-or-v1-", Alphabet::Word, 32, ANY),
    token("openai-key", "sk-proj-", Alphabet::Word, 20, ANY),
    token("openai-key", "sk-svcacct-", Alphabet::Word, 20, ANY),
    token("openai-key", "sk-admin-", Alphabet::Word, 20, ANY),
    token("api-key", "sk-", Alphabet::Alnum, 32, ANY),
    token("github-token", "github_pat_", Alphabet::Word, 36, ANY),
    token("github-token", "ghp_", Alphabet::Alnum, 30, ANY),
    token("github-token", "gho_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghu_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghs_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghr_", Alphabet::Alnum, 30, ANY),
    token("gitlab-token", "glpat-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxb-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxp-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxa-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxs-", Alphabet::Word, 20, ANY),
    token("slack-token", "xapp-", Alphabet::Word, 20, ANY),
    token("slack-webhook", "https://hooks.slack.com/services/", Alphabet::Path, 30, ANY),
    token("aws-key-id", "AKIA", Alphabet::Upper, 16, 16),
    token("aws-key-id", "ASIA", Alphabet::Upper, 16, 16),
    token("google-key", "AIza", Alphabet::Word, 35, 35),
    token("google-token", "ya29.", Alphabet::Dotted, 30, ANY),
    token("google-secret", "GOCSPX-", Alphabet::Word, 20, ANY),
    token("stripe-key", "sk_live_", Alphabet::Alnum, 16, ANY),
    token("stripe-key", "rk_live_", Alphabet::Alnum, 16, ANY),
    token("stripe-key", "sk_test_", Alphabet::Alnum, 16, ANY),
    token("webhook-secret", "whsec_", Alphabet::Base64, 24, ANY),
    token("huggingface-token", "hf_", Alphabet::Alnum, 30, ANY),
    token("npm-token", "npm_", Alphabet::Alnum, 36, 36),
    token("pypi-token", "pypi-AgE", Alphabet::Word, 40, ANY),
    token("sendgrid-key", "SG.", Alphabet::Dotted, 60, ANY),
    token("digitalocean-token", "dop_v1_", Alphabet::Hex, 64, 64),
    token("groq-key", "gsk_", Alphabet::Alnum, 40, ANY),
    token("xai-key", "xai-", Alphabet::Alnum, 40, ANY),
    token("replicate-token", "r8_", Alphabet::Alnum, 36, ANY),
    token("perplexity-key", "pplx-", Alphabet::Alnum, 40, ANY),
    token("databricks-token", "dapi", Alphabet::Hex, 32, 32),
    token("docker-token", "dckr_pat_", Alphabet::Word, 20, ANY),
    token("linear-key", "lin_api_", Alphabet::Alnum, 30, ANY),
    token("vault-token", "hvs.", Alphabet::Word, 20, ANY),
    token("shopify-token", "shpat_", Alphabet::Hex, 32, 32),
    token("gitlab-token", "glptt-", Alphabet::Word, 20, ANY),
    token("gitlab-token", "glrt-", Alphabet::Word, 20, ANY),
    token("gitlab-token", "gldt-", Alphabet::Word, 20, ANY),
    token("gitlab-token", "glcbt-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxr-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxe-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxe.xox", Alphabet::Word, 20, ANY),
    token("stripe-key", "rk_test_", Alphabet::Alnum, 16, ANY),
    token("atlassian-token", "ATATT3", Alphabet::Base64Url, 60, ANY),
    token("age-key", "AGE-SECRET-KEY-1", Alphabet::Upper, 50, ANY),
    token("figma-token", "figd_", Alphabet::Word, 36, ANY),
    token("doppler-token", "dp.pt.", Alphabet::Alnum, 40, ANY),
    token("tailscale-key", "tskey-", Alphabet::Word, 20, ANY),
    token("newrelic-key", "NRAK-", Alphabet::Upper, 27, 27),
    token("sentry-token", "sntrys_", Alphabet::Base64Url, 60, ANY),
    token("grafana-token", "glsa_", Alphabet::Word, 32, ANY),
    token("shopify-token", "shpss_", Alphabet::Hex, 32, 32),
    token("shopify-token", "shpca_", Alphabet::Hex, 32, 32),
    token("shopify-token", "shppa_", Alphabet::Hex, 32, 32),
    token("postman-key", "PMAK-", Alphabet::Word, 50, ANY),
    token("pulumi-token", "pul-", Alphabet::Hex, 40, 40),
    token("rubygems-key", "rubygems_", Alphabet::Hex, 48, 48),
    token("square-token", "sq0atp-", Alphabet::Word, 22, ANY),
    token("square-token", "EAAA", Alphabet::Word, 60, 60),
    token("crates-token", "cio", Alphabet::Alnum, 32, 32),
    token("discord-webhook", "https://discord.com/api/webhooks/", Alphabet::Path, 60, ANY),
    token("discord-webhook", "https://discordapp.com/api/webhooks/", Alphabet::Path, 60, ANY),
    token("square-token", "sq0csp-", Alphabet::Word, 40, ANY),
    token("nvidia-key", "nvapi-", Alphabet::Word, 40, ANY),
    token("tavily-key", "tvly-", Alphabet::Word, 24, ANY),
    token("langsmith-key", "lsv2_", Alphabet::Word, 32, ANY),
    token("supabase-token", "sbp_", Alphabet::Hex, 40, 40),
    token("cerebras-key", "csk-", Alphabet::Alnum, 40, ANY),
    token("fly-token", "fm2_", Alphabet::Base64, 60, ANY),
    token("terraform-token", "atlasv1.", Alphabet::Word, 40, ANY),
    token("dropbox-token", "sl.B", Alphabet::Word, 60, ANY),
    token("airtable-token", "pat", Alphabet::Dotted, 79, 79),
    token("notion-token", "ntn_", Alphabet::Alnum, 40, ANY),
    token("notion-token", "secret_", Alphabet::Alnum, 43, 43),
    token("slack-token", "xoxc-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxd-", Alphabet::Url, 40, ANY),
    token("digitalocean-token", "doo_v1_", Alphabet::Hex, 64, 64),
    token("digitalocean-token", "dor_v1_", Alphabet::Hex, 64, 64),
    token("langfuse-key", "sk-lf-", Alphabet::Word, 32, ANY),
    token("posthog-key", "phx_", Alphabet::Alnum, 40, ANY),
    token("buildkite-token", "bkua_", Alphabet::Hex, 40, 40),
    token("sourcegraph-token", "sgp_", Alphabet::Word, 40, ANY),
    token("linear-key", "lin_oauth_", Alphabet::Alnum, 30, ANY),
    token("netlify-token", "nfp_", Alphabet::Alnum, 36, ANY),
    token("sentry-token", "sntryu_", Alphabet::Hex, 64, 64),
    token("bitbucket-token", "ATBB", Alphabet::Alnum, 32, 32),
    token("atlassian-token", "ATCTT3", Alphabet::Base64Url, 60, ANY),
    token("dynatrace-token", "dt0c01.", Alphabet::Dotted, 80, ANY),
    token("onepassword-token", "ops_eyJ", Alphabet::Word, 100, ANY),
    token("mapbox-token", "sk.eyJ", Alphabet::Dotted, 40, ANY),
    token("vault-token", "hvb.", Alphabet::Word, 40, ANY),
    token("contentful-token", "CFPAT-", Alphabet::Word, 40, ANY),
    token("supabase-key", "sb_secret_", Alphabet::Word, 24, ANY),
    token("planetscale-password", "pscale_pw_", Alphabet::Dotted, 32, ANY),
    token("planetscale-token", "pscale_tkn_", Alphabet::Dotted, 32, ANY),
    token("google-token", "1//0", Alphabet::Word, 40, ANY),
    token("heroku-token", "HRKU-", Alphabet::Word, 36, ANY),
    token("vercel-token", "vcp_", Alphabet::Alnum, 24, ANY),
    token("cloudflare-token", "cfut_", Alphabet::Alnum, 40, ANY),
    token("cloudflare-token", "cfat_", Alphabet::Alnum, 40, ANY),
    token("cloudflare-token", "cfk_", Alphabet::Alnum, 40, ANY),
    token("pinecone-key", "pcsk_", Alphabet::Word, 40, ANY),
    token("bedrock-key", "ABSK", Alphabet::Base64, 100, ANY),
    token("okta-token", "SSWS 00", Alphabet::Word, 40, 40),
    token("dropbox-token", "sl.", Alphabet::Dotted, 100, ANY),
    token("artifactory-key", "AKCp", Alphabet::Alnum, 60, ANY),
    token("wallet-key", "xprv", Alphabet::Alnum, 107, 107),
    token("wallet-key", "yprv", Alphabet::Alnum, 107, 107),
    token("wallet-key", "zprv", Alphabet::Alnum, 107, 107),
    token("wallet-key", "tprv", Alphabet::Alnum, 107, 107),
];

/// Marks that are in use for nothing else, so that they count also within a word.
pub(super) const UNMISTAKABLE: &[&str] = &[
    "sk-ant-",
    "sk-or-v1-",
    "sk-proj-",
    "sk-svcacct-",
    "github_pat_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "rk_live_",
    "npm_",
    "pypi-AgE",
    "dckr_pat_",
    "GOCSPX-",
];
