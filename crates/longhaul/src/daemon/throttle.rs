//! Shares rates out among the copies under way: each gets as much as any other, and what one does not use the others
//! have.

use super::admission::{Account, Admission};
use longhaul_proto::units::Rate;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The copies under way that move data.
pub(crate) struct Throttle {
    admission: Admission,
    flows: Mutex<Vec<Flow>>,
    next: AtomicU64,
}

struct Flow {
    id: u64,
    account: Arc<Account>,
    /// From the server, or to it.
    sends: bool,
    /// What it may use, at least: more than it did a moment ago.
    wants: u64,
}

/// A copy's share, given back when it is dropped.
pub(crate) struct Share {
    throttle: Arc<Throttle>,
    id: u64,
}

impl Throttle {
    pub fn new(admission: Admission) -> Throttle {
        Throttle { admission, flows: Mutex::default(), next: AtomicU64::default() }
    }

    /// A copy begins.
    pub fn join(self: &Arc<Throttle>, account: &Arc<Account>, sends: bool) -> Share {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        // Nobody knows yet how much it can use.
        self.lock().push(Flow { id, account: account.clone(), sends, wants: u64::MAX });
        Share { throttle: self.clone(), id }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Flow>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// How fast this copy may go now. `used`: its rate of late; `None` before it has begun.
    pub fn rate(&self, used: Option<Rate>) -> Option<Rate> {
        let total = self.throttle.admission.rules().policy().limits.rates.rate_now();
        let mut flows = self.throttle.lock();
        let me = flows.iter_mut().find(|flow| flow.id == self.id)?;
        let (sends, account) = (me.sends, me.account.clone());
        let own = account.user.limits.rates.rate_now();
        let lowest = total.into_iter().chain(own).min()?;
        if let Some(used) = used {
            me.wants = used.0.saturating_mul(2).saturating_add(lowest.0 / ROOM_TO_GROW);
        }
        let way = flows.iter().filter(|flow| flow.sends == sends);
        let mine =
            |flow: &Flow| Arc::ptr_eq(&flow.account, &account) || flow.account.user.name == account.user.name;
        let of_user = own.map(|rate| part(rate, self.id, way.clone().filter(|flow| mine(flow))));
        let of_all = total.map(|rate| part(rate, self.id, way));
        of_user.into_iter().chain(of_all).min()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.throttle.lock().retain(|flow| flow.id != self.id);
    }
}

/// What `rate` leaves to one of several flows.
fn part<'a>(rate: Rate, id: u64, flows: impl Iterator<Item = &'a Flow>) -> Rate {
    let (mut wants, mut mine) = (vec![], 0);
    for flow in flows {
        wants.push(flow.wants);
        if flow.id == id {
            mine = flow.wants;
        }
    }
    Rate(portion(rate.0, mine, wants).max(1))
}

/// Max-min fair share of `capacity` for a flow that wants `mine`, which is one of `wants`. What is left over when all have
/// what they want is shared equally.
fn portion(capacity: u64, mine: u64, mut wants: Vec<u64>) -> u64 {
    wants.sort_unstable();
    let (mut left, count) = (capacity, wants.len() as u64);
    for (at, want) in (0..).zip(&wants) {
        let level = left / (count - at);
        if *want >= level {
            return mine.min(level);
        }
        left -= want;
    }
    mine.saturating_add(left / count.max(1))
}

/// One that hardly moves anything may have this part of the rate at once.
const ROOM_TO_GROW: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Token;
    use crate::daemon::policy::{Access, Policy};
    use proptest::prelude::*;

    #[test]
    fn what_one_does_not_use_the_others_have() {
        let shares = |capacity, wants: &[u64]| -> Vec<u64> {
            wants.iter().map(|want| portion(capacity, *want, wants.to_vec())).collect()
        };
        assert_eq!(shares(100, &[u64::MAX]), [100]);
        assert_eq!(shares(100, &[u64::MAX, u64::MAX]), [50, 50]);
        assert_eq!(shares(100, &[10, u64::MAX, u64::MAX]), [10, 45, 45]);
        assert_eq!(shares(100, &[10, 20]), [45, 55]);
    }

    proptest! {
        #[test]
        fn all_together_have_no_more_than_there_is_and_nothing_is_wasted(
            capacity in 1u64..1_000_000_000,
            wants in proptest::collection::vec(prop_oneof![0u64..2_000_000_000, Just(u64::MAX)], 1..20),
        ) {
            let total: u64 = wants.iter().map(|want| portion(capacity, *want, wants.clone())).sum();
            prop_assert!(total <= capacity && total + 2 * wants.len() as u64 >= capacity, "{total} of {capacity}");
        }
    }

    #[test]
    fn a_copy_that_ends_leaves_its_share_to_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::from("long enough a secret");
        let policy = Policy::one_folder(folder.path(), token, Access::ReadWrite).with_rate(Some(Rate(1000)));
        let admission = Admission::new(policy).unwrap();
        let account = admission.rules().find(None).1.unwrap();
        let throttle = Arc::new(Throttle::new(admission));
        let [one, other] = [(); 2].map(|()| throttle.join(&account, true));
        let received = throttle.join(&account, false);
        assert_eq!([one.rate(None), other.rate(None)], [Some(Rate(500)); 2]);
        assert_eq!(received.rate(None), Some(Rate(1000)), "the other direction is another matter");
        assert_eq!(one.rate(Some(Rate(50))), Some(Rate(162)), "twice what it used, and room to grow");
        assert_eq!(other.rate(Some(Rate(500))), Some(Rate(838)));
        drop(one);
        assert_eq!(other.rate(Some(Rate(500))), Some(Rate(1000)));
    }
}
