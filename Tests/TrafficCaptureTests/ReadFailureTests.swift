import CLinux
import Glibc
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("Parts of a capture that can't be read")
struct ReadFailureTests {
    private static let broken = CaptureError.system(call: "read", object: "x", errno: EIO)

    @Test("a part that fails costs no other part, is named while it fails, and stays counted")
    func oneOfMany() throws {
        let reads = ReadFailures()
        for round in 1...3 {
            reads.beginSweep()
            #expect(!reads.attempt("a") { () throws(CaptureError) in throw Self.broken })
            #expect(reads.attempt("b") {})
            try reads.endSweep()
            #expect(reads.count == UInt64(round))
            #expect(reads.current == [ReadFailure(part: "a", reason: "\(Self.broken)")])
            #expect(reads.blindSpots.count == 1 && reads.blindSpots[0].contains("read at present: a ("))
        }
        reads.beginSweep()
        #expect(reads.attempt("a") {})
        try reads.endSweep()
        #expect(reads.current.isEmpty && reads.blindSpots.isEmpty && reads.count == 3)
    }

    @Test("the sweep fails where no part can be read")
    func all() {
        let reads = ReadFailures()
        reads.beginSweep()
        for part in ["a", "b"] { reads.attempt(part) { () throws(CaptureError) in throw Self.broken } }
        #expect(throws: Self.broken) { try reads.endSweep() }
        // A sweep without attempts does not fail.
        reads.beginSweep()
        #expect(throws: Never.self) { try reads.endSweep() }
    }

    @Test("the log has each part once a minute, with how often it failed meanwhile")
    func log() {
        var log = ReadFailureLog()
        let failures = ["a", "b"].map { ReadFailure(part: $0, reason: "no") }
        var lines: [String] = []
        for second in UInt64(0)...120 { lines += log.lines(failures, now: second * 1_000_000_000) }
        #expect(
            lines == [
                "can't read a, will ask again: no", "can't read b, will ask again: no",
                "can't read a, will ask again: no (and 59 times since this was last said)",
                "can't read b, will ask again: no (and 59 times since this was last said)",
                "can't read a, will ask again: no (and 59 times since this was last said)",
                "can't read b, will ask again: no (and 59 times since this was last said)",
            ]
        )
    }

    @Test("a list that changed while the kernel wrote it does not count as complete")
    func interruptedList() {
        var header = nlmsghdr()
        header.nlmsg_len = UInt32(MemoryLayout<nlmsghdr>.size)
        header.nlmsg_type = UInt16(NLMSG_DONE)
        header.nlmsg_flags = UInt16(NLM_F_MULTI | NLM_F_DUMP_INTR)
        let bytes = withUnsafeBytes(of: header) { Array($0) }
        #expect(throws: CaptureError.system(call: "dump", object: "test", errno: EINTR)) {
            _ = try NetlinkMessages.forEach(in: bytes.span.bytes, name: "test") { _ in }
        }
    }

    @Test("a list is requested again after an error that may pass, a few times, and each time from the start")
    func askedAgain() throws {
        var attempts = 0
        let request = LinkRequest()
        let list = { (errors: [Int32]) throws(CaptureError) -> [Int] in
            attempts = 0
            let empty: [Int] = []
            return try Netlink.list(family: NETLINK_ROUTE, name: "test", request, into: empty) {
                _,
                items throws(CaptureError) in
                attempts += 1
                items.append(attempts)
                guard attempts > errors.count else {
                    throw .system(call: "recv", object: "test", errno: errors[attempts - 1])
                }
                return true
            }
        }
        #expect(try list([]) == [1])
        #expect(try list([EINTR, ENOBUFS, EBUSY]) == [4])
        #expect(throws: CaptureError.self) { try list([EPERM]) }
        #expect(attempts == 1)
        #expect(throws: CaptureError.self) { try list(Array(repeating: EINTR, count: 100)) }
        #expect(attempts == 5)
    }

    private struct LinkRequest: BitwiseCopyable {
        var header = nlmsghdr()
        var message = ifinfomsg()

        init() {
            self.header.nlmsg_len = UInt32(MemoryLayout<LinkRequest>.size)
            self.header.nlmsg_type = UInt16(RTM_GETLINK)
            self.header.nlmsg_flags = UInt16(NLM_F_REQUEST | NLM_F_DUMP)
        }
    }
}
