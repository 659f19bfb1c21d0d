//! Whether the disk of this member has room, and what that means for its office.
//!
//! A leader without room refuses writes, so it gives its office up as long as others can go on without it. It cannot know
//! whether they have room, and with everybody's disk full a leader that refuses is better than none: so the attempts are
//! further and further apart.

/// How many times longer than at first a leader waits before it tries again, at most.
const PAUSE_MAX: i64 = 64;

/// The room of a member, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    is_low: bool,
    /// When the office was given up, and how long to wait then before that is done again.
    gave_up: Option<(i64, i64)>,
}

impl Room {
    /// Takes note of what the disk says.
    pub(crate) fn measured(&mut self, is_low: bool) {
        self.is_low = is_low;
        if !is_low {
            self.gave_up = None;
        }
    }

    pub(crate) fn is_low(&self) -> bool {
        self.is_low
    }

    /// Whether a leader whom others can replace gives up now.
    pub(crate) fn gives_up(&mut self, now_ms: i64, pause_ms: i64) -> bool {
        let is_due = self.gave_up.is_none_or(|(at_ms, wait_ms)| wait_ms <= now_ms - at_ms);
        if !self.is_low || !is_due {
            return false;
        }
        let wait_ms = self.gave_up.map_or(pause_ms, |(_, wait_ms)| wait_ms * 2);
        self.gave_up = Some((now_ms, wait_ms.min(pause_ms * PAUSE_MAX)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_further_and_further_apart() {
        let mut room = Room::default();
        assert!(!room.gives_up(0, 10), "there is room");
        room.measured(true);
        let mut given_up = |range: std::ops::Range<i64>| range.filter(|now_ms| room.gives_up(*now_ms, 10)).collect();
        let at: Vec<i64> = given_up(5..100);
        assert_eq!(at, [5, 15, 35, 75]);
        let at: Vec<i64> = given_up(100..3_000);
        assert_eq!(at, [155, 315, 635, 1_275, 1_915, 2_555]);
        room.measured(false);
        assert!(!room.gives_up(4_000, 10));
        room.measured(true);
        assert!(room.gives_up(4_000, 10), "that was another time");
    }
}
