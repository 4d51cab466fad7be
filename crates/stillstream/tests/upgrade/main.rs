//! What an upgrade meets: the state of an older program, and whether the newer one can go on with it. What
//! cannot be restored is refused before anything is started, and nothing is changed.

mod damage;
mod ids;
mod key_groups;
mod lists;
mod owners;
mod program;
mod said;
mod starts;
mod states;
