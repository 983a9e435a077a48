// Linux calls and structures that Swift's Glibc module leaves out, or that Swift can't call because they are variadic.
#pragma once

#include <time.h>
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static inline int linux_fsopen(const char *type) { return (int)syscall(SYS_fsopen, type, 1 /* FSOPEN_CLOEXEC */); }

static inline int linux_fsconfig_create(int context)
{
	return (int)syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, 0, 0, 0);
}

static inline int linux_fsmount(int context) { return (int)syscall(SYS_fsmount, context, 1 /* FSMOUNT_CLOEXEC */, 0); }

/* struct file_handle of fcntl.h for a kernfs node: the handle is the id of the node. */
struct linux_kernfs_handle {
	uint32_t handle_bytes;
	int32_t handle_type;
	uint64_t id;
};

static inline int linux_open_kernfs(int mount, uint64_t id)
{
	struct linux_kernfs_handle handle = { sizeof(handle.id), 0xfe /* FILEID_KERNFS */, id };

	return (int)syscall(SYS_open_by_handle_at, mount, &handle, 010000000 /* O_PATH */ | 02000000 /* O_CLOEXEC */);
}

/* Sets the name of the calling thread. The kernel keeps 15 bytes of the name. */
static inline int linux_name_thread(const char *name) { return prctl(PR_SET_NAME, name); }

static inline int linux_pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

static inline int linux_unshare_network(void) { return (int)syscall(SYS_unshare, 0x40000000 /* CLONE_NEWNET */); }

static inline int linux_setns_network(int namespace) { return (int)syscall(SYS_setns, namespace, 0x40000000 /* CLONE_NEWNET */); }

/* Offsets in struct tcp_info of linux/tcp.h, which can't be included beside the C library's netinet/tcp.h. */
enum linux_tcp_info_offset {
	LINUX_TCP_INFO_OPTIONS = 5,
	LINUX_TCP_INFO_RTT = 68,
	LINUX_TCP_INFO_TOTAL_RETRANS = 100,
	LINUX_TCP_INFO_BYTES_ACKED = 120,
	LINUX_TCP_INFO_BYTES_RECEIVED = 128,
	LINUX_TCP_INFO_SEGS_OUT = 136,
	LINUX_TCP_INFO_SEGS_IN = 140,
	LINUX_TCP_INFO_NOTSENT_BYTES = 144,
	LINUX_TCP_INFO_BYTES_SENT = 200,
	LINUX_TCP_INFO_BYTES_RETRANS = 208,
};

/* struct ucred, which sys/socket.h declares only for GNU sources. */
struct linux_ucred {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/*
 * Receives one datagram with its sender's credentials, without waiting (unix(7), SCM_CREDENTIALS; the socket has
 * SO_PASSCRED). `flags`: MSG_PEEK leaves the datagram in the queue. Returns the length of the datagram, which is more
 * than `size` if the datagram was cut off, or -1 with errno.
 */
static inline ssize_t linux_receive_from(int socket, void *buffer, size_t size, struct linux_ucred *sender, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct linux_ucred))];
		struct cmsghdr align;
	} control;
	struct iovec vector = { buffer, size };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t length = recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	struct cmsghdr *header = length < 0 ? NULL : CMSG_FIRSTHDR(&message);

	*sender = (struct linux_ucred){ 0, (uid_t)-1, (gid_t)-1 };
	for (; header; header = CMSG_NXTHDR(&message, header))
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == 2 /* SCM_CREDENTIALS */)
			*sender = *(struct linux_ucred *)CMSG_DATA(header);
	return length;
}

/* The two numbers of a device, which glibc has as macros (makedev(3)). */
static inline unsigned int linux_major(dev_t device)
{
	return major(device);
}

static inline unsigned int linux_minor(dev_t device)
{
	return minor(device);
}

// glibc declares it only for X/Open programs, which Swift's view of it is not.
char *strptime(const char *text, const char *format, struct tm *time);
