//! TUN devices: network devices whose packets a process writes and reads.
//!
//! This is the only file of the workspace with `unsafe`. The system creates such a device only by
//! an `ioctl`. The compiler cannot check a call of `ioctl`, because the number of the request
//! determines what it reads and writes. Crates that wrap this request also set up addresses and
//! routes on other systems, with hundreds of such calls.

#![allow(unsafe_code)]

use super::error::LabError;
use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

const DRIVER: &str = "/dev/net/tun";
/// The request for a device, from `<linux/if_tun.h>`.
const TUNSETIFF: Opcode = opcode::write::<c_int>(b'T', 202);
/// Packets of IP, without the headers of Ethernet.
const IFF_TUN: u16 = 0x0001;
/// No header of the driver before each packet.
const IFF_NO_PI: u16 = 0x1000;
/// No device of that name may exist.
const IFF_TUN_EXCL: u16 = 0x8000;
/// Length of a name with the zero at its end.
const NAME_BYTES: usize = 16;

/// `struct ifreq` of `<linux/if.h>`: the name of a device, and a union of 24 bytes on machines of
/// 64 bits and 16 bytes on those of 32 bits. The request uses the first two bytes of the union.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    unused: [u8; 22],
}

/// Checks that the user may have TUN devices, in any namespaces.
pub(super) fn check() -> Result<(), LabError> {
    open_driver().map(drop).map_err(LabError::NoTun)
}

/// Creates a device of this name in the network namespace of this process. It exists until the file
/// is closed. A read takes one packet that the system sends through the device, and a write passes
/// one packet to the system; neither waits.
pub(super) fn create(name: &str) -> io::Result<File> {
    let mut request = InterfaceRequest {
        name: [0; NAME_BYTES],
        flags: IFF_TUN | IFF_NO_PI | IFF_TUN_EXCL,
        unused: [0; 22],
    };
    // The last byte stays zero.
    let room = request.name[..NAME_BYTES - 1].get_mut(..name.len());
    let room = room.filter(|room| !room.is_empty()).ok_or(io::ErrorKind::InvalidInput)?;
    room.copy_from_slice(name.as_bytes());
    let driver = open_driver()?;
    // SAFETY: `driver` is a file of the driver that defines the request TUNSETIFF. The driver reads
    // one `struct ifreq` at the address, and writes one there with the name of the device.
    // `InterfaceRequest` has the layout and at least the size of that struct, any bytes are a valid
    // value of it, and `request` is not used while the call lasts.
    let created =
        unsafe { ioctl(&driver, Updater::<{ TUNSETIFF }, InterfaceRequest>::new(&mut request)) };
    created?;
    Ok(driver)
}

fn open_driver() -> io::Result<File> {
    let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(without_waiting).open(DRIVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};
    use std::path::Path;

    #[test]
    fn the_request_has_the_number_and_the_layout_of_the_headers_of_linux() {
        // `_IOW('T', 202, int)`, as strace shows it, and `struct ifreq` of machines of 64 bits.
        assert_eq!(TUNSETIFF, 0x4004_54ca);
        assert_eq!(size_of::<InterfaceRequest>(), 40);
        assert_eq!(offset_of!(InterfaceRequest, flags), 16);
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        for name in ["", "sixteen-letters-", "much-longer-than-any-name-of-a-device"] {
            let error = create(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn a_device_exists_as_long_as_its_file() {
        // No other process has this number, and no other test such a name.
        let name = format!("gs{}", std::process::id());
        let device = match create(&name) {
            Ok(device) => device,
            Err(error) => return println!("skipped: there can be no TUN device here: {error}"),
        };
        let path = Path::new("/sys/class/net").join(&name);
        assert!(path.exists(), "{}", path.display());
        let again = create(&name).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(rustix::io::Errno::BUSY.raw_os_error()), "{again}");

        drop(device);

        assert!(!path.exists(), "{}", path.display());
    }
}
