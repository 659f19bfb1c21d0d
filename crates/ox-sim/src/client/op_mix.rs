//! What a client likes to do. Others like other things, so that rare combinations meet.

use crate::rng::Dice;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Write,
    Multi,
    SetAcl,
    Read,
    Watch,
    Authenticate,
    Quota,
    Odd,
    Close,
}

const WISHES: [Wish; 9] = [
    Wish::Write,
    Wish::Multi,
    Wish::SetAcl,
    Wish::Read,
    Wish::Watch,
    Wish::Authenticate,
    Wish::Quota,
    Wish::Odd,
    Wish::Close,
];

/// How likely each wish is, and how a wish is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mood {
    weights: [u64; WISHES.len()],
    /// Reads that watch, in a thousand.
    pub(super) watch_per_mille: u32,
    /// Creates of ephemeral nodes, in a thousand.
    pub(super) ephemeral_per_mille: u32,
    /// Creates of containers and TTL nodes, in a thousand.
    pub(super) special_per_mille: u32,
    /// Lists that not everybody may read, in a thousand.
    pub(super) private_per_mille: u32,
}

const MIXED: Mood = Mood {
    weights: [390, 80, 20, 330, 110, 20, 5, 20, 7],
    watch_per_mille: 500,
    ephemeral_per_mille: 350,
    special_per_mille: 250,
    private_per_mille: 100,
};

const MOODS: &[Mood] = &[
    MIXED,
    // Writes, and hardly looks.
    Mood { weights: [600, 200, 20, 100, 20, 5, 0, 5, 5], special_per_mille: 400, ..MIXED },
    // Watches, and looks at everything it is told of.
    Mood { weights: [60, 20, 5, 500, 350, 20, 0, 5, 5], watch_per_mille: 900, ..MIXED },
    // Owns nodes, and goes.
    Mood { weights: [600, 50, 10, 200, 50, 5, 0, 5, 40], ephemeral_per_mille: 850, special_per_mille: 50, ..MIXED },
    // Fills containers and empties them.
    Mood { weights: [700, 100, 5, 120, 40, 5, 0, 0, 2], special_per_mille: 600, ephemeral_per_mille: 100, ..MIXED },
    // Has secrets.
    Mood { weights: [350, 60, 150, 250, 80, 100, 5, 5, 5], private_per_mille: 600, ..MIXED },
];

impl Mood {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        *dice.pick(MOODS)
    }

    pub(super) fn wish(&self, dice: &mut Dice) -> Wish {
        let mut rest = dice.below(self.weights.iter().sum());
        for (wish, weight) in WISHES.into_iter().zip(self.weights) {
            match rest.checked_sub(weight) {
                Some(less) => rest = less,
                None => return wish,
            }
        }
        Wish::Read
    }
}
