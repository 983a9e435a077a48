/* Trap 29: frames that bypass the inet sockets, over a pair of interfaces that nothing else uses. */
#include "generator.h"
#include "scenarios.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <string.h>
#include <sys/mman.h>

enum { EXPERIMENT = 0x88b5 }; /* an EtherType for tests, IEEE Std 802 */
enum { FRAMES = 200, RING_FRAMES = 64, FRAME_BYTES = 2048 };

static size_t payload_bytes(unsigned int number)
{
	return 46 + number * 61 % 1400;
}

static int open_at(const char *interface, int type, uint16_t protocol)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol),
				       .sll_ifindex = (int)if_nametoindex(interface) };
	int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, htons(protocol));

	if (fd < 0)
		skip("packet socket: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		fail("bind to %s", interface);
	watch(fd, "peer");
	return fd;
}

static struct sockaddr_ll to_everyone(const char *interface)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(EXPERIMENT), .sll_halen = ETH_ALEN,
				       .sll_ifindex = (int)if_nametoindex(interface) };

	memset(address.sll_addr, 0xff, ETH_ALEN);
	return address;
}

static void write_header(char *frame)
{
	struct ether_header *header = (struct ether_header *)frame;

	memset(header->ether_dhost, 0xff, ETH_ALEN);
	memset(header->ether_shost, 0x02, ETH_ALEN);
	header->ether_type = htons(EXPERIMENT);
}

/*
 * Two receivers of every frame: SOCK_RAW reads the Ethernet header too, SOCK_DGRAM does not. Peeks count nothing, and a
 * frame cut short counts with what the call returned.
 */
static void receive_frames(int raw, int cooked, unsigned int frames)
{
	for (unsigned int i = 0; i < frames; i++) {
		ssize_t bytes = payload_bytes(i), whole = ETHER_HDR_LEN + bytes;

		if (recv(raw, buffer(), FRAME_BYTES, MSG_PEEK) != whole)
			fail("peek at frame %u", i);
		if (i % 10 == 7 ? received(raw, recv(raw, buffer(), 20, 0)) != 20 :
				  received(raw, recv(raw, buffer(), FRAME_BYTES, 0)) != whole)
			fail("receive frame %u", i);
		if (received(cooked, recv(cooked, buffer(), FRAME_BYTES, 0)) != bytes)
			fail("receive frame %u without its header", i);
	}
}

static void packet_server(const struct part *part)
{
	int raw, cooked;

	make_veth("tg-a", "tg-b", 0);
	raw = open_at("tg-b", SOCK_RAW, EXPERIMENT);
	cooked = open_at("tg-b", SOCK_DGRAM, EXPERIMENT);
	set_option(raw, SOL_SOCKET, SO_RCVBUF, 2 * MIB);
	set_option(cooked, SOL_SOCKET, SO_RCVBUF, 2 * MIB);
	ready(part, 0);
	receive_frames(raw, cooked, FRAMES);
}

/* SOCK_RAW with a header of its own, by sendto and by send; SOCK_DGRAM, to which the kernel adds one. */
static void packet_client(const struct part *part)
{
	struct sockaddr_ll everyone;
	int raw, cooked;

	await_port(part);
	raw = open_at("tg-a", SOCK_RAW, EXPERIMENT);
	cooked = open_at("tg-a", SOCK_DGRAM, EXPERIMENT);
	everyone = to_everyone("tg-a");
	for (unsigned int i = 0; i < FRAMES; i++) {
		const struct sockaddr *to = (struct sockaddr *)&everyone;
		ssize_t bytes = payload_bytes(i), whole = ETHER_HDR_LEN + bytes, result;

		write_header(buffer());
		if (i % 3 == 0)
			result = sent(raw, sendto(raw, buffer(), whole, 0, to, sizeof(everyone))) - ETHER_HDR_LEN;
		else if (i % 3 == 1)
			result = sent(raw, send(raw, buffer(), whole, 0)) - ETHER_HDR_LEN;
		else
			result = sent(cooked, sendto(cooked, buffer(), bytes, 0, to, sizeof(everyone)));
		if (result != bytes)
			fail("send frame %u", i);
	}
}

/* PACKET_TX_RING: the frames lie in shared memory, and one send() without a buffer takes all that are ready. */
static void ring_client(const struct part *part)
{
	struct tpacket_req request = { .tp_block_size = RING_FRAMES * FRAME_BYTES, .tp_block_nr = 1,
				       .tp_frame_size = FRAME_BYTES, .tp_frame_nr = RING_FRAMES };
	ssize_t expected = 0;
	char *ring;
	int fd;

	await_port(part);
	fd = open_at("tg-a", SOCK_RAW, EXPERIMENT);
	set_option(fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2);
	if (setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &request, sizeof(request)))
		skip("PACKET_TX_RING: %s", strerror(errno));
	ring = mmap(NULL, request.tp_block_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		fail("map the ring");
	for (unsigned int i = 0; i < RING_FRAMES; i++) {
		struct tpacket2_hdr *header = (struct tpacket2_hdr *)(ring + i * FRAME_BYTES);
		char *frame = (char *)header + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);

		write_header(frame);
		header->tp_len = ETHER_HDR_LEN + payload_bytes(i);
		__atomic_store_n(&header->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
		expected += header->tp_len;
	}
	if (sent(fd, send(fd, NULL, 0, 0)) != expected)
		fail("send the ring");
}

static void ring_server(const struct part *part)
{
	int raw, cooked;

	make_veth("tg-a", "tg-b", 0);
	raw = open_at("tg-b", SOCK_RAW, EXPERIMENT);
	cooked = open_at("tg-b", SOCK_DGRAM, EXPERIMENT);
	ready(part, 0);
	receive_frames(raw, cooked, RING_FRAMES);
}

const struct scenario packet_scenarios[] = {
	{ "packet", "raw frames by packet sockets", packet_server, packet_client, .one_address = true,
	  .private_network = true, .one_namespace = true }, /* it makes its own link */
	{ "packet-ring", "raw frames by PACKET_TX_RING", ring_server, ring_client, .one_address = true,
	  .private_network = true, .one_namespace = true }, /* it makes its own link */
	{ 0 },
};
