//! The checker is checked itself: good histories pass, and each way to break a promise is named.

mod answers;
mod events;
mod good;
mod logs;
mod sessions;
mod size;
mod story;
mod views;
mod writes;
