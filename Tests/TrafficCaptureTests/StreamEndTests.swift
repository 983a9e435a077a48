import Foundation
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// The ends of streams, whose numbers `lifecycle` reads without the socket lock (bpf/streams.bpf.h).
    @Suite("Ends of streams")
    struct StreamEndTests {
        /// What the records of clients had.
        private struct Looks {
            private(set) var latest = LatestRecords()
            /// The most that was ever received, by cookie.
            private(set) var most: [UInt64: UInt64] = [:]
            /// Cookies of sockets of which a later record had less.
            private(set) var fallen: Set<UInt64> = []

            mutating func absorb(_ event: CaptureEvent) {
                guard case .socket(let socket) = event, socket.role == .client else { return }
                let cookie = socket.cookie.rawValue
                self.most[cookie] = max(self.most[cookie] ?? 0, socket.ownedPayload.received)
                if let known = self.latest[cookie], !socket.isOlder(than: known),
                    socket.ownedPayload.isBehind(known.ownedPayload)
                {
                    self.fallen.insert(cookie)
                }
                self.latest.absorb(event)
            }
        }

        /// The client receives 7 of 50,000 bytes, and has much to send when it disconnects: the kernel then passes over what
        /// waits for the client, and frees what is unsent, before it sets its counter of received bytes to 0.
        @Test("what a disconnected socket throws away was not received, and no counter falls, whenever a sweep looks")
        func thrownAway() throws {
            let (cycles, read) = (1_000, 7)
            let capture = try BPFCapture(method: .lifecycle)
            let program = """
                import ctypes, socket, struct, sys
                libc = ctypes.CDLL(None)
                listener = socket.create_server(("127.0.0.1", 0), backlog=8)
                client, sent = socket.socket(), 0
                for cycle in range(\(cycles)):
                    client.setblocking(True)
                    client.connect(listener.getsockname())
                    server, _ = listener.accept()
                    server.sendall(bytes(50000))
                    assert len(client.recv(\(read))) == \(read)
                    client.setblocking(False)
                    try:
                        while True: sent += client.send(bytes(1000000))
                    except BlockingIOError: pass
                    # connect(2) to AF_UNSPEC
                    assert libc.connect(client.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16) == 0
                    server.close()
                print(client.getsockopt(socket.SOL_SOCKET, 57, 8).hex(), sent, flush=True)  # SO_COOKIE
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            var looks = Looks()
            var answer = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while poll(&answer, 1, 0) == 0 { try capture.sweep { looks.absorb($0) } }
            let words = try output.nextLine().split(separator: " ")
            let cookie = try #require(words.first.flatMap { UInt64($0, radix: 16)?.byteSwapped })
            let sent = try #require(words.last.flatMap { UInt64($0) })
            for _ in 1...2 { try capture.sweep { looks.absorb($0) } }
            let client = try #require(looks.latest[cookie])
            let received = UInt64(cycles * read)
            #expect(looks.most[cookie] == received)
            #expect(!looks.fallen.contains(cookie))
            #expect(client.ownedPayload + client.unowned == PayloadBytes(sent: sent, received: received))
        }

        /// While a process is in a call on a socket without a connection, a sweep does not know what of the stream was
        /// received. A process may still read what came before a reset, in many calls.
        @Test("what is read after a reset never falls, whenever a sweep looks")
        func readAfterReset() throws {
            let bytes = 50_000
            let capture = try BPFCapture(method: .lifecycle)
            let program = """
                import fcntl, socket, struct, sys, termios, time
                listener = socket.create_server(("127.0.0.1", 0))
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                server.sendall(bytes(\(bytes)))
                def unread(): return struct.unpack("i", fcntl.ioctl(client, termios.FIONREAD, bytes(4)))[0]
                while unread() < \(bytes): time.sleep(0.01)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                server.close()
                for _ in range(\(bytes)): assert len(client.recv(1)) == 1
                print(client.getsockopt(socket.SOL_SOCKET, 57, 8).hex(), flush=True)  # SO_COOKIE
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            var looks = Looks()
            var answer = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while poll(&answer, 1, 0) == 0 { try capture.sweep { looks.absorb($0) } }
            let cookie = try #require(try UInt64(output.nextLine(), radix: 16)?.byteSwapped)
            for _ in 1...2 { try capture.sweep { looks.absorb($0) } }
            #expect(looks.latest[cookie]?.ownedPayload == PayloadBytes(sent: 0, received: UInt64(bytes)))
            #expect(!looks.fallen.contains(cookie))
        }

        /// The lower half of what a stream has moved comes from sequence numbers, the rest from other counters. After more
        /// than 2 GiB nothing more must not look like 4 GiB more.
        @Test("a stream of more than 2 GiB counts once, also after its end")
        func longStream() throws {
            let bytes = UInt64(2_500 << 20)
            let capture = try BPFCapture(method: .lifecycle)
            let program = """
                import ctypes, os, socket, struct, sys
                listener = socket.create_server(("127.0.0.1", 0))
                client = socket.create_connection(listener.getsockname())
                server, _ = listener.accept()
                reader = os.fork()
                if reader == 0:
                    client.close()
                    left = \(bytes)
                    # MSG_TRUNC: without a copy
                    while left: left -= server.recv_into(bytearray(1 << 20), 1 << 20, socket.MSG_TRUNC)
                    os._exit(0)
                server.close()
                block = bytes(1 << 20)
                for _ in range(\(bytes >> 20)): client.sendall(block)
                assert os.waitpid(reader, 0)[1] == 0
                cookie = client.getsockopt(socket.SOL_SOCKET, 57, 8).hex()  # SO_COOKIE
                print(cookie, flush=True)
                sys.stdin.readline()
                assert ctypes.CDLL(None).connect(client.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16) == 0
                print(cookie, flush=True)
                sys.stdin.readline()
                client.close()
                print(cookie, flush=True)
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            var latest = LatestRecords()
            let cookie = try #require(try UInt64(output.nextLine(), radix: 16)?.byteSwapped)
            let look = { () -> SocketObservation? in
                for _ in 1...2 { try capture.sweep { latest.absorb($0) } }
                return latest[cookie]
            }
            let sent = { (seen: SocketObservation?) in seen.map { $0.ownedPayload.sent + $0.unowned.sent } }
            let goOn = {
                try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
                _ = try output.nextLine()
            }
            #expect(sent(try blockingLook(until: { sent($0) == bytes }, look)) == bytes)
            try goOn()
            #expect(sent(try look()) == bytes, "disconnected")
            try goOn()
            let last = try blockingLook(until: { $0?.closedBoottimeNanoseconds != nil }, look)
            #expect(last?.closedBoottimeNanoseconds != nil && sent(last) == bytes)
        }
    }
}
