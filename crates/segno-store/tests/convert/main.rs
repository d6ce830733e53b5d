//! Sessions written as another agent's: read again by that agent's reader, they say the same, but for what
//! was told as lost.

mod cases;
mod corpus;
mod exact;
mod made;
mod own;
mod round;
mod scene;
mod state;
