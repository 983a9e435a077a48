/*
 * Trap 10: the kernel encrypts. The process writes and reads plaintext, and that is its payload. Records, tags and
 * padding are not payload. The keys are constants, because the test needs the kernel's cipher and no secrecy.
 */
#include "generator.h"
#include "scenarios.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef SOL_TLS
#define SOL_TLS 282
#endif

enum { HELLO_BYTES = 517, FILE_BYTES = 300007, ALERT_BYTES = 2, ALERT = 21 };

/* Both sides have the same keys, one for each direction. */
static void start_tls(int fd, int option, char direction, unsigned short version)
{
	struct tls12_crypto_info_aes_gcm_128 keys = { .info = { version, TLS_CIPHER_AES_GCM_128 } };

	memset(keys.key, direction, sizeof(keys.key));
	memset(keys.iv, direction + 1, sizeof(keys.iv));
	memset(keys.salt, direction + 2, sizeof(keys.salt));
	if (setsockopt(fd, SOL_TLS, option, &keys, sizeof(keys)))
		skip("kernel TLS %x: %s", version, strerror(errno));
}

static void ask_for_tls(int fd)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")))
		skip("no kernel TLS: setsockopt(TCP_ULP, tls): %s", strerror(errno));
}

static void start_both(int fd, bool client, unsigned short version)
{
	ask_for_tls(fd);
	start_tls(fd, client ? TLS_TX : TLS_RX, 'c', version);
	start_tls(fd, client ? TLS_RX : TLS_TX, 's', version);
}

/* The handshake, which the process does itself: plain bytes on the plain socket. */
static int serve_tls(const struct part *part, unsigned short version)
{
	int fd = serve_one(part, IPPROTO_TCP);

	receive_all(fd, HELLO_BYTES, HELLO_BYTES);
	start_both(fd, false, version);
	return fd;
}

/*
 * Makes room for all that is sent. Before Linux 6.5, a sendfile() that waits for room in tls_sw_do_sendpage() has not
 * pushed what it gave to TCP. Where nothing is in flight, nothing ever pushes those bytes. Seen on 6.1: three records
 * in the write queue for 120 s, the peer's queue empty.
 */
static int call_tls(const struct part *part, unsigned short version)
{
	int fd = call(part, IPPROTO_TCP), room = 4 * MIB;

	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		set_option(fd, SOL_SOCKET, SO_SNDBUF, room);

	send_all(fd, HELLO_BYTES, HELLO_BYTES);
	start_both(fd, true, version);
	return fd;
}

/* A record that is not data needs recvmsg() with room for its type. */
static void receive_alert(int fd)
{
	char control[CMSG_SPACE(1)], bytes[16];
	struct iovec vector = { bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header;

	if (received(fd, recvmsg(fd, &message, 0)) != ALERT_BYTES)
		fail("receive an alert");
	header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != TLS_GET_RECORD_TYPE || *CMSG_DATA(header) != ALERT)
		fail("the record is no alert");
}

static void send_alert(int fd)
{
	union {
		char space[CMSG_SPACE(1)];
		struct cmsghdr align;
	} control = {};
	struct iovec vector = { "\1\0", ALERT_BYTES };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_TLS;
	header->cmsg_type = TLS_SET_RECORD_TYPE;
	header->cmsg_len = CMSG_LEN(1);
	*CMSG_DATA(header) = ALERT;
	if (sent(fd, sendmsg(fd, &message, 0)) != ALERT_BYTES)
		fail("send an alert");
}

static void exchange_server(const struct part *part, unsigned short version)
{
	int fd = serve_tls(part, version);

	for (int i = 0; i < 10; i++) {
		if (recv(fd, buffer(), 1000, MSG_PEEK) <= 0)
			fail("peek");
		receive_all(fd, 100003, 7001);
		send_all(fd, 50021, 30011);
	}
	receive_all(fd, FILE_BYTES + 300 + 1000, 65536);
	receive_alert(fd);
	send_all(fd, 1, 1);
}

static void exchange_client(const struct part *part, unsigned short version)
{
	int file = memfd_create("payload", MFD_CLOEXEC), fd = call_tls(part, version);
	off_t offset = 0;

	if (file < 0 || write(file, buffer(), FILE_BYTES) != FILE_BYTES)
		fail("write the payload file");
	for (int i = 0; i < 10; i++) {
		send_all(fd, 100003, 20011);
		receive_all(fd, 50021, 65536);
	}
	while (offset < FILE_BYTES) {
		if (sent(fd, sendfile(fd, file, &offset, FILE_BYTES - offset)) <= 0)
			fail("sendfile through TLS");
	}
	/* Held back for a full record, or until the last send. */
	if (sent(fd, send(fd, buffer(), 300, MSG_MORE)) != 300 || sent(fd, send(fd, buffer(), 1000, 0)) != 1000)
		fail("send with MSG_MORE");
	send_alert(fd);
	receive_all(fd, 1, 1);
}

static void tls12_server(const struct part *part)
{
	exchange_server(part, TLS_1_2_VERSION);
}

static void tls12_client(const struct part *part)
{
	exchange_client(part, TLS_1_2_VERSION);
}

static void tls13_server(const struct part *part)
{
	exchange_server(part, TLS_1_3_VERSION);
}

static void tls13_client(const struct part *part)
{
	exchange_client(part, TLS_1_3_VERSION);
}

/* Traps 7 and 10 together: splice() out of the socket gives plaintext, and is no receive call. */
enum { SPLICED_BYTES = 500009 };

static void splice_server(const struct part *part)
{
	int fd = serve_tls(part, TLS_1_2_VERSION), ends[2];
	size_t left = SPLICED_BYTES;

	if (pipe2(ends, O_CLOEXEC))
		fail("pipe");
	while (left) {
		ssize_t result = received(fd, splice(fd, NULL, ends[1], NULL, left, 0));

		if (result <= 0)
			fail("splice out of TLS");
		left -= result;
		while (result > 0) {
			ssize_t taken = read(ends[0], buffer(), result);

			if (taken <= 0)
				fail("read the pipe");
			result -= taken;
		}
	}
	send_all(fd, 1, 1);
}

static void splice_client(const struct part *part)
{
	int fd = call_tls(part, TLS_1_2_VERSION), ends[2];
	size_t left = SPLICED_BYTES;

	if (pipe2(ends, O_CLOEXEC))
		fail("pipe");
	while (left) {
		ssize_t filled = write(ends[1], buffer(), left < 30011 ? left : 30011);

		if (filled <= 0)
			fail("fill the pipe");
		left -= filled;
		while (filled > 0) {
			ssize_t result = sent(fd, splice(ends[0], NULL, fd, NULL, filled, 0));

			if (result <= 0)
				fail("splice into TLS");
			filled -= result;
		}
	}
	receive_all(fd, 1, 1);
}

/* Any user may ask for kernel TLS. Without keys the bytes go as they are. */
static void asked_server(const struct part *part)
{
	int fd = serve_one(part, IPPROTO_TCP);

	receive_all(fd, FILE_BYTES, 65536);
	ask_for_tls(fd);
	send_all(fd, FILE_BYTES, 20011);
}

static void asked_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	ask_for_tls(fd);
	send_all(fd, FILE_BYTES, 20011);
	receive_all(fd, FILE_BYTES, 65536);
}

const struct scenario ktls_scenarios[] = {
	{ "ktls-asked", "kernel TLS that was asked for, and got no keys", asked_server, asked_client },
	{ "ktls-1.2", "kernel TLS 1.2: send, receive, sendfile, an alert", tls12_server, tls12_client },
	{ "ktls-1.3", "kernel TLS 1.3: send, receive, sendfile, an alert", tls13_server, tls13_client },
	{ "ktls-splice", "splice into and out of kernel TLS", splice_server, splice_client },
	{ 0 },
};
