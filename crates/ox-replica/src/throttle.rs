//! Tokens for new sessions: a server that everybody wants to connect to at once serves some of them well.
//!
//! Every handshake takes tokens from a bucket that fills at a steady rate; who finds too few is turned away. A
//! second device, off unless a freeze time is set, turns handshakes away at random, the more often the longer the
//! bucket stays empty, so that a crowd spreads out instead of fighting for each token.

use crate::clock::Now;

/// What the configuration says about the bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleSettings {
    /// Size of the bucket.
    pub tokens: u32,
    /// Time between refills.
    pub fill_time_ms: u32,
    /// Tokens per refill.
    pub fill_count: u32,
    /// Shortest time between changes of the drop probability; `None` turns nobody away at random.
    pub freeze_time_ms: Option<u32>,
    /// Added to the drop probability when the bucket is empty.
    pub drop_increase: f64,
    /// Taken from it when little is missing.
    pub drop_decrease: f64,
    /// How much is little: a share of the bucket.
    pub decrease_ratio: f64,
    /// Tokens by kind of handshake; `None` takes one for each.
    pub weights: Option<Weights>,
}

/// Tokens by kind of handshake. With weights the bucket and its refills count in new sessions, so they are multiplied
/// by what one of those takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// A new session.
    pub new: u32,
    /// A session that comes back.
    pub renewed: u32,
    /// A new session that only its server knows.
    pub local: u32,
}

/// What a handshake asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomer {
    /// A new session.
    New,
    /// The session it had.
    Renewed,
    /// A new session that only its server knows.
    Local,
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct Throttle {
    settings: ThrottleSettings,
    size: u64,
    fill: u64,
    tokens: u64,
    filled_ms: i64,
    drop_chance: f64,
    changed_ms: i64,
}

impl Throttle {
    /// A full bucket; `None` when the settings turn the throttle off.
    pub fn new(settings: ThrottleSettings, now: Now) -> Option<Self> {
        if settings.tokens == 0 {
            return None;
        }
        let weight = settings.weights.map_or(1, |weights| u64::from(weights.new));
        let size = u64::from(settings.tokens) * weight;
        let fill = u64::from(settings.fill_count) * weight;
        let (filled_ms, changed_ms) = (now.mono_ms, now.mono_ms);
        Some(Self { settings, size, fill, tokens: size, filled_ms, drop_chance: 0.0, changed_ms })
    }

    /// Whether a handshake may go on; `chance` is a random number from 0 up to 1.
    pub fn admit(&mut self, now: Now, newcomer: Newcomer, chance: f64) -> bool {
        self.refill(now.mono_ms);
        if let Some(freeze_ms) = self.settings.freeze_time_ms {
            self.adjust(now.mono_ms, i64::from(freeze_ms));
            if chance < self.drop_chance {
                return false;
            }
        }
        let need = match (self.settings.weights, newcomer) {
            (None, _) => 1,
            (Some(weights), Newcomer::New) => u64::from(weights.new),
            (Some(weights), Newcomer::Renewed) => u64::from(weights.renewed),
            (Some(weights), Newcomer::Local) => u64::from(weights.local),
        };
        match self.tokens.checked_sub(need) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Tokens that are missing.
    pub fn deficit(&self) -> u64 {
        self.size - self.tokens
    }

    /// How likely a handshake is turned away at random.
    pub fn drop_chance(&self) -> f64 {
        self.drop_chance
    }

    fn refill(&mut self, now_ms: i64) {
        let step_ms = i64::from(self.settings.fill_time_ms.max(1));
        let steps = (now_ms - self.filled_ms) / step_ms;
        if 0 < steps {
            let returned = self.fill.saturating_mul(steps.unsigned_abs());
            self.tokens = self.tokens.saturating_add(returned).min(self.size);
            self.filled_ms += steps * step_ms; // what is left of a step counts for the next one
        }
    }

    fn adjust(&mut self, now_ms: i64, freeze_ms: i64) {
        if now_ms - self.changed_ms <= freeze_ms {
            return;
        }
        self.changed_ms = now_ms;
        #[expect(clippy::cast_precision_loss, reason = "a share of the bucket need not be exact")]
        let is_little = (self.size - self.tokens) as f64 <= (self.size as f64 * self.settings.decrease_ratio).round();
        if self.tokens == 0 {
            self.drop_chance = (self.drop_chance + self.settings.drop_increase).min(1.0);
        } else if is_little {
            self.drop_chance = (self.drop_chance - self.settings.drop_decrease).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: ThrottleSettings = ThrottleSettings {
        tokens: 3,
        fill_time_ms: 10,
        fill_count: 2,
        freeze_time_ms: None,
        drop_increase: 0.5,
        drop_decrease: 0.25,
        decrease_ratio: 0.0,
        weights: None,
    };

    fn at(mono_ms: i64) -> Now {
        Now { mono_ms, wall_ms: 0 }
    }

    /// Lets `count` newcomers in at one moment; returns how many were let in.
    fn crowd(throttle: &mut Throttle, now_ms: i64, newcomer: Newcomer, count: usize) -> usize {
        (0..count).filter(|_| throttle.admit(at(now_ms), newcomer, 0.0)).count()
    }

    #[test]
    fn a_bucket_empties_and_fills() {
        let mut throttle = Throttle::new(PLAIN, at(1000)).unwrap();
        assert_eq!(crowd(&mut throttle, 1000, Newcomer::New, 10), 3);
        assert_eq!(crowd(&mut throttle, 1009, Newcomer::New, 10), 0);
        assert_eq!(crowd(&mut throttle, 1019, Newcomer::New, 10), 2);
        assert_eq!(crowd(&mut throttle, 1020, Newcomer::New, 10), 2); // the nine milliseconds before were not lost
        assert_eq!(crowd(&mut throttle, 9999, Newcomer::New, 10), 3);
    }

    #[test]
    fn without_tokens_there_is_no_throttle() {
        assert!(Throttle::new(ThrottleSettings { tokens: 0, ..PLAIN }, at(0)).is_none());
    }

    #[test]
    fn weights_make_new_sessions_dearer() {
        let settings = ThrottleSettings { weights: Some(Weights { new: 3, renewed: 2, local: 1 }), ..PLAIN };
        let mut throttle = Throttle::new(settings, at(0)).unwrap();
        assert_eq!(crowd(&mut throttle, 0, Newcomer::New, 2), 2); // nine tokens, three each
        assert_eq!(crowd(&mut throttle, 0, Newcomer::Renewed, 10), 1);
        assert_eq!(crowd(&mut throttle, 10, Newcomer::New, 10), 2); // one was left, six came back
        assert_eq!(crowd(&mut throttle, 10, Newcomer::Local, 10), 1);
    }

    #[test]
    fn an_empty_bucket_makes_random_refusals_likelier() {
        let settings = ThrottleSettings { freeze_time_ms: Some(5), fill_time_ms: 1000, ..PLAIN };
        let mut throttle = Throttle::new(settings, at(0)).unwrap();
        assert_eq!(crowd(&mut throttle, 0, Newcomer::New, 10), 3);
        assert!(!throttle.admit(at(6), Newcomer::New, 0.49)); // the chance to be dropped is one half now
        assert!(!throttle.admit(at(12), Newcomer::New, 0.99)); // and now it is certain
        assert!(!throttle.admit(at(1000), Newcomer::New, 0.0)); // tokens are back, the memory is not gone
        assert!(throttle.admit(at(3000), Newcomer::New, 0.76)); // full again: a quarter less
        assert!(!throttle.admit(at(3001), Newcomer::New, 0.74)); // frozen
    }
}
