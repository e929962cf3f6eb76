//! The idle wait of a node's first PE, on the node's socket.

use super::{ATTEND, NetDriver, lock, try_lock};
use crate::driver::inbox::Inbox;
use crate::driver::switch::Switch;
use crate::driver::worker::Idle;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Makes the first PE of a node wait on the node's socket.
pub(in crate::driver) struct Drive {
    pub(in crate::driver) net_driver: Arc<NetDriver>,
    pub(in crate::driver) switch: Arc<Switch>,
}

/// Longest wait if no timeout is set; the transport's own timers are shorter.
const FOREVER: Duration = Duration::from_secs(3600);

impl Idle for Drive {
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>) -> Duration {
        let net_driver = &self.net_driver;
        let mut net = match try_lock(&net_driver.net) {
            Some(net) => net,
            None => {
                net_driver.wanted.store(true, Ordering::SeqCst);
                net_driver.waker.wake();
                let net = lock(&net_driver.net);
                net_driver.wanted.store(false, Ordering::SeqCst);
                net
            }
        };
        if !inbox.fall_asleep() {
            return Duration::ZERO;
        }
        let timeout = timeout.unwrap_or(FOREVER);
        let driven = net_driver.turn(&mut net, &self.switch, timeout, Some(inbox));
        inbox.wake_up();
        driven
    }

    fn attend(&mut self) -> Duration {
        let net_driver = &self.net_driver;
        if (net_driver.has_frames.load(Ordering::SeqCst) || net_driver.unattended() > ATTEND)
            && let Some(mut net) = try_lock(&net_driver.net)
        {
            return net_driver.turn(&mut net, &self.switch, Duration::ZERO, None);
        }
        Duration::ZERO
    }
}
