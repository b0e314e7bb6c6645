//! Which machine this is, and since which boot: decides whether writes that were not synced have survived.

use std::time::Duration;

/// A machine, from one boot to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    machine: String,
    boot: String,
    /// How long it had been up when this was read.
    up: Duration,
}

impl Machine {
    /// A machine with this identity, this boot and this uptime.
    #[must_use]
    pub const fn new(machine: String, boot: String, up: Duration) -> Self {
        Self { machine, boot, up }
    }

    /// The machine that this process runs on.
    #[must_use]
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let up = read("/proc/uptime");
        let up = up.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        Self {
            machine: read("/etc/machine-id"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            up: Duration::try_from_secs_f64(up).unwrap_or_default(),
        }
    }

    /// Its identity and boot as text.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.machine, self.boot)
    }

    /// Whether `text` names the current boot of this machine; false if the boot is unknown. Only the boot is compared:
    /// its id is unique over all machines, while the machine id may change.
    pub(super) fn is(&self, text: &str) -> bool {
        !self.boot.is_empty() && text.split_once(' ').is_some_and(|(_, boot)| boot == self.boot)
    }

    /// How long it takes until all leases of at most `longest` that were granted on the machine `last` have
    /// expired. If that is this machine, they were granted before it was booted. Another machine may have died
    /// just now.
    pub(super) fn closed_for(&self, last: &str, longest: Duration) -> Duration {
        if self.is(last) {
            return Duration::ZERO;
        }
        let here = !self.machine.is_empty() && last.split(' ').next() == Some(&self.machine);
        if here { longest.saturating_sub(self.up) } else { longest }
    }
}

#[cfg(test)]
mod tests {
    use super::Machine;
    use std::time::Duration;

    #[test]
    fn nothing_is_closed_unless_the_machine_died_p3() {
        let s = Duration::from_secs;
        let machine = |machine: &str, boot: &str, up| {
            let (machine, boot) = (machine.to_owned(), boot.to_owned());
            Machine { machine, boot, up }
        };
        let now = machine("m", "b", s(20));
        assert_eq!(now.closed_for("m b", s(60)), s(0), "only the daemon died");
        assert_eq!(now.closed_for("n b", s(60)), s(0), "it was given another machine-id");
        assert_eq!(now.closed_for("m a", s(60)), s(40), "it was booted 20 s ago");
        assert_eq!(machine("m", "b", s(70)).closed_for("m a", s(60)), s(0), "long ago");
        assert_eq!(
            now.closed_for("n a", s(60)),
            s(60),
            "another machine, which may just have died"
        );
        assert_eq!(machine("", "", s(70)).closed_for(" ", s(60)), s(60), "nobody can tell");
    }

    #[test]
    fn this_machine_is_itself() {
        let this = Machine::this();
        assert!(this.is(&Machine::this().text()), "{this:?}");
        assert!(this.up > Duration::ZERO);
    }
}
