//! How the first PE of a node waits: in the node's socket.

use super::{ATTEND, Uplink, lock, try_lock};
use crate::driver::inbox::Inbox;
use crate::driver::switch::Switch;
use crate::driver::worker::Idle;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The first PE of a node waits in the node's socket.
pub(in crate::driver) struct Drive {
    pub(in crate::driver) uplink: Arc<Uplink>,
    pub(in crate::driver) switch: Arc<Switch>,
}

/// The longest wait where nothing sets a limit; the transport's own timers are shorter.
const FOREVER: Duration = Duration::from_secs(3600);

impl Idle for Drive {
    fn wait(&mut self, inbox: &Inbox, timeout: Option<Duration>) {
        let uplink = &self.uplink;
        let mut net = match try_lock(&uplink.net) {
            Some(net) => net,
            None => {
                uplink.wanted.store(true, Ordering::SeqCst);
                uplink.waker.wake();
                let net = lock(&uplink.net);
                uplink.wanted.store(false, Ordering::SeqCst);
                net
            }
        };
        if inbox.fall_asleep() {
            uplink.turn(&mut net, &self.switch, timeout.unwrap_or(FOREVER), Some(inbox));
            inbox.wake_up();
        }
    }

    fn attend(&mut self) {
        let uplink = &self.uplink;
        if (uplink.has_frames.load(Ordering::SeqCst) || uplink.unattended() > ATTEND)
            && let Some(mut net) = try_lock(&uplink.net)
        {
            uplink.turn(&mut net, &self.switch, Duration::ZERO, None);
        }
    }
}
