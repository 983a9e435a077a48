/* Network namespaces and interfaces, by the kernel's own interfaces: a guest has no ip(8). */
#include "generator.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int change(const char *interface, unsigned long what, struct ifreq request)
{
	int fd = open_socket(AF_INET, SOCK_DGRAM, 0), result;

	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	result = ioctl(fd, what, &request);
	close(fd);
	return result;
}

void bring_up(const char *interface)
{
	if (change(interface, SIOCSIFFLAGS, (struct ifreq){ .ifr_flags = IFF_UP }))
		fail("bring %s up", interface);
}

/* Offloads cut streams and datagrams into packets late, and join packets again early. */
void set_offloads(const char *interface, bool on)
{
	static const unsigned int commands[] = { ETHTOOL_STXCSUM, ETHTOOL_SSG, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };

	for (unsigned int i = 0; i < COUNT_OF(commands); i++) {
		/* Off in the reverse order, because each offload needs those before it. */
		struct ethtool_value value = { .cmd = commands[on ? i : COUNT_OF(commands) - 1 - i], .data = on };

		if (change(interface, SIOCETHTOOL, (struct ifreq){ .ifr_data = (char *)&value }))
			skip("cannot change an offload (%#x) of a veth interface: %s", value.cmd, strerror(errno));
	}
}

/* A new network has a loopback interface that is down. */
bool own_network(void)
{
	if (unshare(CLONE_NEWNET))
		return false;
	bring_up("lo");
	return true;
}

struct request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg address;
	};
	char attributes[256];
};

/* Returns the kernel's answer: 0, or -errno. */
static int ask_kernel(struct request *request)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;
	int fd = open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	request->header.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, request, request->header.nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof(answer), MSG_TRUNC) < 0)
		fail("ask netlink");
	close(fd);
	return answer.error.error;
}

/* Returns where the attribute begins, for end_attribute() if others go into it. */
static struct rtattr *add_attribute(struct request *request, unsigned short type, const void *bytes, size_t length)
{
	struct rtattr *attribute = (struct rtattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));

	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(length);
	if (bytes)
		memcpy(RTA_DATA(attribute), bytes, length);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
	return attribute;
}

static void end_attribute(struct request *request, struct rtattr *attribute)
{
	attribute->rta_len = (char *)request + request->header.nlmsg_len - (char *)attribute;
}

void make_veth(const char *name, const char *peer, pid_t owner)
{
	struct request request = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
					       .nlmsg_type = RTM_NEWLINK,
					       .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL } };
	struct ifinfomsg none = {};
	struct rtattr *information, *data, *other;
	int error;

	add_attribute(&request, IFLA_IFNAME, name, strlen(name) + 1);
	information = add_attribute(&request, IFLA_LINKINFO, NULL, 0);
	add_attribute(&request, IFLA_INFO_KIND, "veth", 5);
	data = add_attribute(&request, IFLA_INFO_DATA, NULL, 0);
	other = add_attribute(&request, VETH_INFO_PEER, &none, sizeof(none));
	add_attribute(&request, IFLA_IFNAME, peer, strlen(peer) + 1);
	if (owner)
		add_attribute(&request, IFLA_NET_NS_PID, &owner, sizeof(owner));
	end_attribute(&request, other);
	end_attribute(&request, data);
	end_attribute(&request, information);
	error = ask_kernel(&request);
	if (error)
		skip("no pair of veth interfaces: %s", strerror(-error));
	/*
	 * The end that is brought up first drops what it should send, without an error, until a thread of the kernel has
	 * noticed that the other one is up (linkwatch_event(), noop_qdisc). The second one sends at once.
	 */
	if (!owner)
		bring_up(peer);
	bring_up(name);
}

void give_address(const char *interface, const struct address *address)
{
	bool four = address->storage.ss_family == AF_INET;
	const void *bytes = four ? (void *)&((struct sockaddr_in *)&address->storage)->sin_addr :
				   (void *)&((struct sockaddr_in6 *)&address->storage)->sin6_addr;
	struct request request = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
					       .nlmsg_type = RTM_NEWADDR,
					       .nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL },
				   .address = { .ifa_family = address->storage.ss_family, .ifa_prefixlen = four ? 24 : 64,
						.ifa_flags = IFA_F_NODAD, .ifa_index = if_nametoindex(interface) } };
	int error;

	add_attribute(&request, IFA_LOCAL, bytes, four ? 4 : 16);
	add_attribute(&request, IFA_ADDRESS, bytes, four ? 4 : 16);
	error = ask_kernel(&request);
	if (error)
		fail("add an address to %s (netlink says %d)", interface, error);
}
