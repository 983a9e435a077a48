import Foundation
import TestSupport

/// The programs of nghttp2, which print each frame with its length.
public enum Nghttp {
    /// The lengths of the frames of one message.
    public struct Message: Hashable, Sendable {
        /// Header blocks, without padding and priorities.
        public var header: UInt64 = 0
        public var body: UInt64 = 0
        /// Frame headers, padding, priorities.
        public var framing: UInt64 = 0

        public init(header: UInt64 = 0, body: UInt64 = 0, framing: UInt64 = 0) {
            (self.header, self.body, self.framing) = (header, body, framing)
        }
    }

    public struct Frames: Hashable, Sendable {
        /// By stream.
        public var sent: [Int: Message] = [:]
        public var received: [Int: Message] = [:]

        public init() {}
    }

    /// nghttp or nghttpd got no acknowledgement of its settings for 10 s, or nghttpd could send nothing of a stream for
    /// 60 s. No option makes them wait longer, and nghttp ends with 0.
    private struct GaveUp: Error {}

    /// - Parameter output: As of ``frames(in:)``.
    /// - Throws: What makes ``patiently(_:)`` begin anew.
    static func checkPatience(_ output: String) throws {
        if output.contains(#/send GOAWAY frame <[^>]*>\n.*error_code=SETTINGS_TIMEOUT/#) { throw GaveUp() }
        if output.contains(" timeout stream_id=") { throw GaveUp() }
    }

    /// Call it in ``patiently(_:)``.
    ///
    /// - Parameter urls: Fetched at the same time, on one connection.
    /// - Throws: `Tool.Failure` where fewer streams than requests have an answer.
    public static func fetch(_ options: [String], _ urls: [String]) async throws -> Frames {
        let tool = try await Tool.run("nghttp", ["-nv", "--timeout=600"] + options + urls)
        let frames = Self.frames(in: tool.output)
        guard frames.received.count < urls.count else { return frames }
        try Self.checkPatience(tool.output)
        throw Tool.Failure(description: "nghttp \(urls): \(tool.error)\(tool.output)")
    }

    /// Repeats a whole measurement in which nghttp or nghttpd gave up, because a slow machine is no fault. A server
    /// that never acknowledges fails after `Program.patience`.
    public static func patiently<Result>(_ measure: () async throws -> Result) async throws -> Result {
        let end = ContinuousClock.now + Program.patience
        while true {
            do {
                return try await measure()
            } catch is GaveUp {
                let line = "nghttp2 waited for an acknowledgement of its settings or for room in a stream, and gave up"
                guard ContinuousClock.now < end else { throw Tool.Failure(description: line) }
                // If a handler held back the acknowledgement, this line would come often.
                print("\(line): the measurement begins anew")
            }
        }
    }

    /// - Parameter output: The output of `nghttp -v` or `nghttpd -v`.
    public static func frames(in output: String) -> Frames {
        var frames = Frames()
        let lines = output.split(separator: "\n")
        for (index, line) in lines.enumerated() {
            guard
                let match = line.wholeMatch(
                    of:
                        #/.* (send|recv) (DATA|HEADERS|CONTINUATION) frame <length=(\d+), flags=0x(..), stream_id=(\d+)>/#
                ), let length = UInt64(match.3), let flags = Int(match.4, radix: 16), let stream = Int(match.5)
            else { continue }
            var framing: UInt64 = 9
            let isHeaders = match.2 == "HEADERS"
            if isHeaders && flags & 0x20 != 0 { framing += 5 }
            // The lines after the frame's line may have: "; END_STREAM | PADDED", "(padlen=8)".
            let details = lines[index...].dropFirst().prefix(3).joined(separator: " ")
            if flags & 0x8 != 0, let padding = details.firstMatch(of: #/padlen=(\d+)/#) {
                framing += UInt64(padding.1) ?? 0
            }
            func add(_ message: inout Message) {
                message.framing += framing
                let content = length + 9 - framing
                if match.2 == "DATA" { message.body += content } else { message.header += content }
            }
            if match.1 == "send" {
                add(&frames.sent[stream, default: Message()])
            } else {
                add(&frames.received[stream, default: Message()])
            }
        }
        return frames
    }

    /// What h2load counts of all responses: header blocks and bodies.
    public struct Load: Hashable, Sendable {
        public var succeeded: Int
        public var headers: UInt64
        public var data: UInt64
    }

    public static func load(_ options: [String], _ url: String) async throws -> Load {
        let output = try await Tool.run("h2load", options + [url]).output
        guard let requests = output.firstMatch(of: #/requests: .* (\d+) succeeded/#),
            let traffic = output.firstMatch(of: #/traffic: .*\((\d+)\) total, .*\((\d+)\) headers .*\((\d+)\) data/#)
        else { throw Tool.Failure(description: "h2load printed: \(output)") }
        return Load(succeeded: Int(requests.1) ?? 0, headers: UInt64(traffic.2) ?? 0, data: UInt64(traffic.3) ?? 0)
    }
}
