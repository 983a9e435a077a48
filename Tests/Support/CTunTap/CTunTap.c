#include "CTunTap.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int open_tap(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	if (ioctl(fd, TUNSETIFF, &request)) {
		close(fd);
		return -1;
	}
	return fd;
}

int raise_interface(const char *name)
{
	struct ifreq request = {};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), result;

	if (fd < 0)
		return -1;
	strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
	result = ioctl(fd, SIOCGIFFLAGS, &request);
	request.ifr_flags |= IFF_UP;
	if (!result)
		result = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return result;
}
