// ioctl(2) is variadic, which Swift can't call.
#pragma once

#include <linux/virtio_net.h>

/*
 * An Ethernet interface of the calling thread's network namespace whose other end is the descriptor; each frame has a struct virtio_net_hdr
 * before it (Documentation/networking/tuntap.rst). Returns -1 with errno. The interface goes with the descriptor.
 */
int open_tap(const char *name);

/* Brings an interface of the calling thread's network namespace up. Returns -1 with errno. */
int raise_interface(const char *name);
