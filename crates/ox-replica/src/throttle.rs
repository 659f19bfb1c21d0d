//! Token bucket for handshakes (`BlueThrottle`), so that a server to which all clients connect at the same time serves
//! some of them well.
//!
//! Every handshake takes tokens from a bucket that is refilled at a steady rate; without enough tokens it is refused.
//! In addition, if a freeze time is set, handshakes are refused at random, with a probability that grows while the
//! bucket is empty, so that clients spread out.

use crate::clock::Now;

/// Settings of the throttle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleSettings {
    pub tokens: u32,
    pub fill_time_ms: u32,
    pub fill_count: u32,
    /// Shortest time between changes of the drop probability. None: no random refusals.
    pub freeze_time_ms: Option<u32>,
    /// Added to the drop probability when the bucket is empty.
    pub drop_increase: f64,
    /// Subtracted from it when the bucket is nearly full.
    pub drop_decrease: f64,
    /// How much may be missing from a nearly full bucket, as a fraction of its size.
    pub decrease_ratio: f64,
    /// Tokens by kind of handshake; none means one token each.
    pub weights: Option<Weights>,
}

/// Tokens by kind of handshake. With weights, bucket size and refill are multiplied by the weight of a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    pub new: u32,
    pub renewed: u32,
    pub local: u32,
}

/// What a handshake requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    New,
    /// To resume a session.
    Renewed,
    /// A new local session.
    Local,
}

/// The token bucket with its drop probability.
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
    /// A full bucket. None if the settings turn the throttle off.
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

    /// Whether a handshake is admitted; `chance` is a random number from 0 up to 1.
    pub fn admit(&mut self, now: Now, kind: HandshakeKind, chance: f64) -> bool {
        self.refill(now.mono_ms);
        if let Some(freeze_ms) = self.settings.freeze_time_ms {
            self.adjust(now.mono_ms, i64::from(freeze_ms));
            if chance < self.drop_chance {
                return false;
            }
        }
        let need = match (self.settings.weights, kind) {
            (None, _) => 1,
            (Some(weights), HandshakeKind::New) => u64::from(weights.new),
            (Some(weights), HandshakeKind::Renewed) => u64::from(weights.renewed),
            (Some(weights), HandshakeKind::Local) => u64::from(weights.local),
        };
        match self.tokens.checked_sub(need) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }

    /// Number of missing tokens.
    pub fn deficit(&self) -> u64 {
        self.size - self.tokens
    }

    /// Probability of a random refusal.
    pub fn drop_chance(&self) -> f64 {
        self.drop_chance
    }

    fn refill(&mut self, now_ms: i64) {
        let step_ms = i64::from(self.settings.fill_time_ms.max(1));
        let steps = (now_ms - self.filled_ms) / step_ms;
        if 0 < steps {
            let returned = self.fill.saturating_mul(steps.unsigned_abs());
            self.tokens = self.tokens.saturating_add(returned).min(self.size);
            self.filled_ms += steps * step_ms; // the remainder counts for the next step
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

    /// Number of handshakes that are admitted, of `count` at the same time.
    fn crowd(throttle: &mut Throttle, now_ms: i64, kind: HandshakeKind, count: usize) -> usize {
        (0..count).filter(|_| throttle.admit(at(now_ms), kind, 0.0)).count()
    }

    #[test]
    fn bucket_empties_and_refills() {
        let mut throttle = Throttle::new(PLAIN, at(1000)).unwrap();
        assert_eq!(crowd(&mut throttle, 1000, HandshakeKind::New, 10), 3);
        assert_eq!(crowd(&mut throttle, 1009, HandshakeKind::New, 10), 0);
        assert_eq!(crowd(&mut throttle, 1019, HandshakeKind::New, 10), 2);
        assert_eq!(crowd(&mut throttle, 1020, HandshakeKind::New, 10), 2); // the 9 ms before counted
        assert_eq!(crowd(&mut throttle, 9999, HandshakeKind::New, 10), 3);
    }

    #[test]
    fn zero_tokens_turn_throttle_off() {
        assert!(Throttle::new(ThrottleSettings { tokens: 0, ..PLAIN }, at(0)).is_none());
    }

    #[test]
    fn weights_make_new_sessions_cost_more() {
        let settings = ThrottleSettings { weights: Some(Weights { new: 3, renewed: 2, local: 1 }), ..PLAIN };
        let mut throttle = Throttle::new(settings, at(0)).unwrap();
        assert_eq!(crowd(&mut throttle, 0, HandshakeKind::New, 2), 2); // nine tokens, three each
        assert_eq!(crowd(&mut throttle, 0, HandshakeKind::Renewed, 10), 1);
        assert_eq!(crowd(&mut throttle, 10, HandshakeKind::New, 10), 2); // one was left, six were refilled
        assert_eq!(crowd(&mut throttle, 10, HandshakeKind::Local, 10), 1);
    }

    #[test]
    fn empty_bucket_raises_drop_probability() {
        let settings = ThrottleSettings { freeze_time_ms: Some(5), fill_time_ms: 1000, ..PLAIN };
        let mut throttle = Throttle::new(settings, at(0)).unwrap();
        assert_eq!(crowd(&mut throttle, 0, HandshakeKind::New, 10), 3);
        assert!(!throttle.admit(at(6), HandshakeKind::New, 0.49)); // the drop probability is 0.5 now
        assert!(!throttle.admit(at(12), HandshakeKind::New, 0.99)); // and 1 now
        assert!(!throttle.admit(at(1000), HandshakeKind::New, 0.0)); // tokens are back, the probability has not changed
        assert!(throttle.admit(at(3000), HandshakeKind::New, 0.76)); // nearly full again: 0.25 less
        assert!(!throttle.admit(at(3001), HandshakeKind::New, 0.74)); // frozen
    }
}
