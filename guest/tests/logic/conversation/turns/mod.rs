//! What a turn is made of: questions, steps, tools, answers, and where the next turn follows.

mod failed_questions;
mod further_answers;
mod open_turns;
mod parts;
mod threads;
mod tools;
