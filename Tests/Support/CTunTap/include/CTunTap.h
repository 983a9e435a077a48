// Swift can't call ioctl(2), because ioctl(2) is variadic.
#pragma once

#include <linux/virtio_net.h>

/*
 * Makes an Ethernet interface in the calling thread's network namespace. The descriptor is the other end of the
 * interface: each frame has a struct virtio_net_hdr before it (Documentation/networking/tuntap.rst). Returns -1 with
 * errno. The interface goes away with the descriptor.
 */
int open_tap(const char *name);

/* Brings up an interface of the calling thread's network namespace. Returns -1 with errno. */
int raise_interface(const char *name);
