/* Network namespaces and interfaces, by the kernel's own interfaces: a guest has no ip(8). */
#include "generator.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void bring_up(const char *interface)
{
	struct ifreq request = { .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
		fail("bring %s up", interface);
	close(fd);
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
	struct ifinfomsg link;
	char attributes[256];
};

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

void make_veth(const char *name, const char *peer)
{
	struct request request = { .header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
					       .nlmsg_type = RTM_NEWLINK,
					       .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK } };
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;
	struct ifinfomsg none = {};
	struct rtattr *information, *data, *other;
	int fd = open_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	add_attribute(&request, IFLA_IFNAME, name, strlen(name) + 1);
	information = add_attribute(&request, IFLA_LINKINFO, NULL, 0);
	add_attribute(&request, IFLA_INFO_KIND, "veth", 5);
	data = add_attribute(&request, IFLA_INFO_DATA, NULL, 0);
	other = add_attribute(&request, VETH_INFO_PEER, &none, sizeof(none));
	add_attribute(&request, IFLA_IFNAME, peer, strlen(peer) + 1);
	end_attribute(&request, other);
	end_attribute(&request, data);
	end_attribute(&request, information);
	if (send(fd, &request, request.header.nlmsg_len, 0) < 0 || recv(fd, &answer, sizeof(answer), MSG_TRUNC) < 0)
		fail("ask for a pair of interfaces");
	if (answer.error.error)
		skip("no pair of veth interfaces: %s", strerror(-answer.error.error));
	close(fd);
	bring_up(name);
	bring_up(peer);
}
