/*
 * Trap 8: a sockmap, by which BPF programs move bytes from socket to socket inside the kernel. A process that set up a
 * sockmap owns only what its own calls moved: the kernel moved the rest.
 */
#include "generator.h"
#include "scenarios.h"
#include "sockmap_programs.h"

#include <linux/tcp.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A proxy between client and server. The proxy reads a head itself and passes it on, leaves the rest to the kernel,
 * and in the end reads a tail itself. Its two sockets are in no tally, because they carry bytes that no process moved.
 */
enum { HEAD_BYTES = 311, REQUEST_BYTES = 200003, RESPONSE_BYTES = 700001, TAIL_BYTES = 77 };

struct proxy {
	const struct part *part;
	int listener;
	uint16_t server_port;
	bool parses, busy;
};

static void own_send(int fd, size_t bytes)
{
	ssize_t result = send(fd, buffer(), bytes, MSG_NOSIGNAL);

	if (result != (ssize_t)bytes)
		fail("the proxy sends");
	sent_by_process(result);
}

static void own_receive(int fd, size_t bytes)
{
	ssize_t result = recv(fd, buffer(), bytes, MSG_WAITALL);

	if (result != (ssize_t)bytes)
		fail("the proxy receives %zu bytes, got %zd", bytes, result);
	received_by_process(result);
}

/*
 * The process sees nothing of the bytes that pass. A busy process goes on using its socket, and so works for the
 * kernel: what comes while a call holds the socket is processed at the end of that call.
 */
static void await_acknowledgement(int fd, uint64_t bytes, bool busy)
{
	struct tcp_info information = {};
	socklen_t length = sizeof(information);

	do {
		if (!busy)
			pause_ms(1);
		for (int i = 0; busy && i < 1000; i++)
			set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &information, &length))
			fail("TCP_INFO");
	} while (information.tcpi_bytes_acked < bytes);
}

static void be_proxy(void *argument)
{
	const struct proxy *proxy = argument;
	struct address server = with_port(proxy->part, proxy->server_port);
	int front_map = make_sockmap(), back_map = make_sockmap(), front, back;

	redirect_received(front_map, back_map);
	redirect_received(back_map, front_map);
	if (proxy->parses) {
		parse_received(front_map);
		parse_received(back_map);
	}
	front = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
	back = open_socket(server.storage.ss_family, SOCK_STREAM, IPPROTO_TCP);
	if (front < 0 || connect(back, (struct sockaddr *)&server.storage, server.length))
		fail("stand between client and server");
	own_receive(front, HEAD_BYTES);
	own_send(back, HEAD_BYTES);
	put_socket(back_map, back);
	put_socket(front_map, front);
	own_send(front, 1); /* the client may go on */
	await_acknowledgement(front, 1 + RESPONSE_BYTES, proxy->busy);
	take_socket_out(front_map);
	take_socket_out(back_map);
	own_send(front, 1);
	own_receive(front, TAIL_BYTES);
	own_send(back, TAIL_BYTES);
}

static void proxied_server(const struct part *part, bool parses, bool busy)
{
	struct proxy proxy = { .part = part, .parses = parses, .busy = busy };
	int own_listener = listen_at(part, IPPROTO_TCP, &proxy.server_port), fd;
	uint16_t port;
	pid_t child;

	proxy.listener = bind_at(part, SOCK_STREAM, IPPROTO_TCP, &port);
	if (listen(proxy.listener, 1))
		fail("listen");
	ready(part, port);
	child = spawn("tg-proxy", be_proxy, &proxy);
	close(proxy.listener);
	fd = accept_from(own_listener);
	receive_all(fd, HEAD_BYTES + REQUEST_BYTES, 50021);
	send_all(fd, RESPONSE_BYTES, 30011);
	receive_all(fd, TAIL_BYTES, TAIL_BYTES);
	reap(child);
}

static void proxied_client(const struct part *part)
{
	int fd = call(part, IPPROTO_TCP);

	send_all(fd, HEAD_BYTES, HEAD_BYTES);
	receive_all(fd, 1, 1);
	send_all(fd, REQUEST_BYTES, 7001);
	receive_all(fd, RESPONSE_BYTES, 65536);
	receive_all(fd, 1, 1);
	send_all(fd, TAIL_BYTES, TAIL_BYTES);
}

static void verdict_server(const struct part *part)
{
	proxied_server(part, false, false);
}

static void busy_server(const struct part *part)
{
	proxied_server(part, false, true);
}

static void parser_server(const struct part *part)
{
	proxied_server(part, true, false);
}

/* A verdict that passes the bytes to the socket's own reader, which gets them from the sockmap's queue, not TCP's. */
static void pass_server(const struct part *part)
{
	int map = make_sockmap(), fd;

	pass_received(map);
	fd = serve_one(part, IPPROTO_TCP);
	receive_all(fd, HEAD_BYTES, HEAD_BYTES);
	put_socket(map, fd);
	send_all(fd, 1, 1);
	if (recv(fd, buffer(), 1, MSG_PEEK) != 1)
		fail("peek");
	receive_all(fd, REQUEST_BYTES, 30011);
	send_all(fd, RESPONSE_BYTES, 30011);
	await_acknowledgement(fd, 1 + RESPONSE_BYTES, false);
	take_socket_out(map);
	send_all(fd, 1, 1);
	receive_all(fd, TAIL_BYTES, TAIL_BYTES);
}

/*
 * Two local sockets short-circuited: what one side sends goes into the other's queue, and TCP never sees the bytes.
 * They still count as sent and received.
 */
struct short_circuit {
	const struct part *part;
	uint16_t port;
	int map;
	bool joined;
};

static void be_local_client(void *argument)
{
	struct short_circuit *circuit = argument;
	int fd = connect_to(circuit->part, IPPROTO_TCP, circuit->port);

	mark_closed(fd); /* it ends with this process */
	send_all(fd, HEAD_BYTES, HEAD_BYTES);
	put_socket(circuit->map, fd);
	__atomic_store_n(&circuit->joined, true, __ATOMIC_RELEASE);
	receive_all(fd, 1, 1); /* both are in their maps */
	send_all(fd, REQUEST_BYTES, 7001);
	receive_all(fd, RESPONSE_BYTES, 65536);
}

static void short_circuit_server(const struct part *part)
{
	struct short_circuit *circuit = mmap(NULL, sizeof(*circuit), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int map = make_sockmap(), listener = listen_at(part, IPPROTO_TCP, &circuit->port), fd;
	pid_t child;

	circuit->part = part;
	circuit->map = make_sockmap();
	redirect_sent(map, circuit->map);
	redirect_sent(circuit->map, map);
	meet();
	child = spawn("tg-local", be_local_client, circuit);
	fd = accept_from(listener);
	receive_all(fd, HEAD_BYTES, HEAD_BYTES);
	put_socket(map, fd);
	while (!__atomic_load_n(&circuit->joined, __ATOMIC_ACQUIRE))
		pause_ms(1);
	send_all(fd, 1, 1);
	receive_all(fd, REQUEST_BYTES, 50021);
	send_all(fd, RESPONSE_BYTES, 30011);
	reap(child);
}

const struct scenario sockmap_scenarios[] = {
	{ "sockmap", "a proxy whose bytes a sockmap moves", verdict_server, proxied_client },
	{ "sockmap-busy", "the same, the proxy's own calls hold its sockets meanwhile", busy_server, proxied_client },
	{ "sockmap-parser", "the same with a stream parser", parser_server, proxied_client },
	{ "sockmap-pass", "a sockmap that passes bytes on to their reader", pass_server, proxied_client },
	{ "sockmap-local", "two sockets that a sockmap short-circuits", short_circuit_server, NULL },
	{ 0 },
};
