import Glibc
import HTTPCalls
import NIOHTTP1
import Testing

@Suite("Requests", .timeLimit(.minutes(60)))
struct HTTPCallTests {
    @Test("a server that takes the connection and says nothing ends the wait in time; one that is gone ends it at once")
    func silence() async throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                #expect(bind(listener, address, length) == 0 && listen(listener, 5) == 0)
                #expect(getsockname(listener, address, &length) == 0)
            }
        }
        let place = HTTPServerPlace.network(
            host: "127.0.0.1",
            port: Int(UInt16(bigEndian: address.sin_port)),
            tls: nil
        )
        let call = HTTPCall(.GET, "/", at: place, headers: ["host": "h"])
        await #expect(throws: HTTPCallError.noAnswerInTime(.seconds(1))) {
            _ = try await call.answer(atMost: 1, within: .seconds(1))
        }
        let waiting = Task { try await call.answer { head, _ in head.status.code } }
        waiting.cancel()
        await #expect(throws: HTTPCallError.cancelled) { _ = try await waiting.value }
        // A process that another test begins just now has the socket until its exec.
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
        await #expect(throws: HTTPCallError.system(number: ECONNREFUSED)) {
            _ = try await call.answer(atMost: 1, within: .seconds(600))
        }
    }
}
