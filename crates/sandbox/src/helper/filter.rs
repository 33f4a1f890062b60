//! The seccomp filter: refuses system calls that no command needs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// System calls, each with the conditions under which it is refused; an empty list means always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever the arguments.
const ALWAYS: &[i64] = &[
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Changes of the file view.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // Kernel keyrings, which no namespace confines.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Kernel interfaces with a large attack surface.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Changes of the machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Refused as well where there is no network: neither an inherited socket nor one of a pair may
/// reach another process.
const WITHOUT_NETWORK: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// The flags of `clone` that create namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Requests that inject input into a terminal, as if a person had typed it.
const TYPING: [u64; 2] = [libc::TIOCSTI, TIOCLINUX];
/// The libc crate lacks this constant.
const TIOCLINUX: u64 = 0x541c;

/// The mode bits with which a program runs as its owner or its group.
const PRIVILEGED: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];
/// Missing in libc for some processors; the number is the same on all.
const SYS_FCHMODAT2: i64 = 452;
/// System calls that set the mode of a file, with the index of the mode argument.
const MODES: &[(i64, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];
/// System calls that set the mode of a file if their flags create one: the indexes of flags and
/// mode.
const OPENING: &[(i64, u8, u8)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];
/// Flags that create a file; of the second, only the bit that `O_DIRECTORY` does not share.
const MAKING: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// The bits of a socket's type without its flags.
const TYPE_BITS: u64 = 0xf;
/// System call numbers from here on belong to the other calling convention of the same processor
/// (x32), which the numbers in our lists do not cover.
const OTHER_CONVENTION: u32 = 0x4000_0000;

/// Installs the filter for a network: `off`, `loopback`, `ports` or `on`.
pub(super) fn install(network: &OsStr) -> io::Result<()> {
    let arch = std::env::consts::ARCH;
    let arch = TargetArch::try_from(arch).map_err(io::Error::other)?;
    let mut refused = common()?;
    match network.to_str() {
        Some("off") => refused.extend(WITHOUT_NETWORK.iter().map(|call| (*call, Vec::new()))),
        Some("loopback") => sockets(&mut refused, &[libc::AF_INET, libc::AF_INET6])?,
        Some("on") => sockets(&mut refused, REACHING)?,
        Some("ports") => {
            sockets(&mut refused, REACHING)?;
            around_ports(&mut refused)?;
        }
        _ => return Err(io::Error::other("unknown network mode")),
    }
    apply(&compile(refused, libc::EPERM, arch)?)?;
    // Their flags lie in memory, which a filter cannot read. Libraries then fall back to the older
    // calls.
    let unreadable = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    let unreadable = Rules::from(unreadable);
    apply(&compile(unreadable, libc::ENOSYS, arch)?)?;
    if arch == TargetArch::x86_64 {
        apply(&other_convention())?;
    }
    Ok(())
}

/// Socket families that connect to other machines, or query the local addresses.
const REACHING: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

fn common() -> io::Result<Rules> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    let flags = NAMESPACES.iter().map(|flag| {
        let flag = u64::from(flag.cast_unsigned());
        rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
    });
    rules.insert(libc::SYS_clone, flags.collect::<io::Result<_>>()?);
    let typing = TYPING.map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
    rules.insert(
        libc::SYS_ioctl,
        typing.into_iter().collect::<io::Result<_>>()?,
    );
    // A pair of a type that can later connect to any address does not count as a pair.
    let pairs = vec![
        rule(&[(0, SeccompCmpOp::Ne, number(libc::AF_UNIX))])?,
        rule(&[(
            1,
            SeccompCmpOp::MaskedEq(TYPE_BITS),
            number(libc::SOCK_DGRAM),
        )])?,
    ];
    rules.insert(libc::SYS_socketpair, pairs);
    privileged_files(&mut rules)?;
    Ok(rules)
}

/// Refuses to create setuid and setgid files: outside the sandbox, where privileges exist, they
/// would remain as a way to gain them.
fn privileged_files(rules: &mut Rules) -> io::Result<()> {
    let has = |index, bits| (index, SeccompCmpOp::MaskedEq(bits), bits);
    for (call, mode) in MODES {
        let cases = PRIVILEGED.map(|bit| rule(&[has(*mode, u64::from(bit))]));
        rules.insert(*call, cases.into_iter().collect::<io::Result<_>>()?);
    }
    for (call, flags, mode) in OPENING {
        let mut cases = Vec::new();
        for bit in PRIVILEGED.map(u64::from) {
            for making in MAKING.map(number) {
                cases.push(rule(&[has(*flags, making), has(*mode, bit)])?);
            }
        }
        rules.insert(*call, cases);
    }
    Ok(())
}

/// Permits only these socket families.
fn sockets(rules: &mut Rules, families: &[i32]) -> io::Result<()> {
    let others: Vec<_> = families
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, number(*family)))
        .collect();
    rules.insert(libc::SYS_socket, vec![rule(&others)?]);
    Ok(())
}

/// Closes the ways to connect that Landlock does not check: protocols beside TCP that carry it, and
/// data sent together with the first packet.
fn around_ports(rules: &mut Rules) -> io::Result<()> {
    let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
    let others = protocols.map(|protocol| (2, SeccompCmpOp::Ne, number(protocol)));
    rules
        .entry(libc::SYS_socket)
        .or_default()
        .push(rule(&others)?);
    let fast = number(libc::MSG_FASTOPEN);
    for (call, flags) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        rules.insert(
            call,
            vec![rule(&[(flags, SeccompCmpOp::MaskedEq(fast), fast)])?],
        );
    }
    let option = rule(&[
        (1, SeccompCmpOp::Eq, number(libc::IPPROTO_TCP)),
        (2, SeccompCmpOp::Eq, number(libc::TCP_FASTOPEN_CONNECT)),
    ])?;
    rules.insert(libc::SYS_setsockopt, vec![option]);
    Ok(())
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    // The kernel reads only the lower half of all these arguments.
    let conditions = conditions.iter().map(|(index, operator, value)| {
        SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    conditions
        .collect::<Result<_, _>>()
        .and_then(SeccompRule::new)
        .map_err(io::Error::other)
}

fn number(constant: i32) -> u64 {
    u64::from(constant.cast_unsigned())
}

fn compile(rules: Rules, errno: i32, arch: TargetArch) -> io::Result<BpfProgram> {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
        .and_then(BpfProgram::try_from)
        .map_err(io::Error::other)
}

fn apply(program: &BpfProgram) -> io::Result<()> {
    apply_filter(program).map_err(io::Error::other)
}

/// Refuses all calls of the other calling convention: load the number, compare, return.
fn other_convention() -> BpfProgram {
    let instruction = |code: u32, jt, jf, k| sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(
            libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
            0,
            1,
            OTHER_CONVENTION,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
