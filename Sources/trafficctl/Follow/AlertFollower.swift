import NIOCore
import TrafficDocuments
import TrafficModel

/// Reads the changes of alerts from the daemon, each once. When the daemon was away, it goes on after the last one.
struct AlertFollower {
    let client: ControlClient
    /// The last change that was read. `nil`: only what comes is wanted.
    var position: AlertPosition?

    /// - Parameter consume: Gets each change and its line. It must not wait for anybody: meanwhile nothing is read.
    /// - Throws: ``Failure`` where the daemon can't be reached at first, or refuses; errors of `consume`.
    mutating func run(_ consume: (AlertNotice, ByteBuffer) throws -> Void) async throws {
        var (isFirst, backOff) = (true, BackOff(longest: 30))
        while true {
            do {
                try await self.follow { notice, line in
                    if !isFirst, notice.change == .following { say("trafficd is there again") }
                    isFirst = false
                    backOff.reset()
                    try consume(notice, line)
                }
            } catch let failure as Failure where !isFirst && failure.mayPass {
                say("\(failure); trying again")
                try await Task.sleep(for: .seconds(backOff.next()))
            }
        }
    }

    private mutating func follow(_ consume: (AlertNotice, ByteBuffer) throws -> Void) async throws {
        var lines = LineSplitter()
        let start = self.position
        var last = start
        defer { self.position = last }
        try await self.client.stream("/v1/alerts/changes", [("after", start?.description)]) { part in
            lines.append(part)
            while let line = lines.next() {
                let notice = try line.decoded(as: AlertNotice.self)
                if notice.change == .following, let last, last.origin != notice.position.origin {
                    say("trafficd was started anew, and judges anew: alerts of before are over")
                }
                last = notice.position
                try consume(notice, line)
            }
        }
        // The daemon ends a stream only when it ends itself.
        throw Failure.disconnected(reason: "trafficd closed it")
    }
}

extension Failure {
    /// The daemon may be back in a moment.
    fileprivate var mayPass: Bool {
        switch self {
        case .notRunning, .disconnected: true
        default: false
        }
    }
}
