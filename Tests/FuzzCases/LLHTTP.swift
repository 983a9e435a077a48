import NIOCore
import NIOEmbedded
import NIOHTTP1
import TrafficKit

/// llhttp, in NIO's decoder: where messages end, and how much body they have.
final class LLHTTP {
    enum State: Hashable {
        case open
        /// Refused for what makes a message's length, or its fields.
        case refused
        /// It goes no further: for its first line's words, after an upgrade, or behind `Connection: close`.
        case over
    }

    private let channel = EmbeddedChannel()
    private let kind: HTTP1Scanner.Kind
    private(set) var state = State.open
    /// Of messages that are complete.
    private(set) var bodies: [UInt64] = []
    private var body: UInt64 = 0
    /// The head at hand is of a message behind which another protocol comes.
    private var isLast = false

    init(_ kind: HTTP1Scanner.Kind, _ methods: [String]) throws {
        self.kind = kind
        let pipeline = self.channel.pipeline.syncOperations
        switch kind {
        case .request: try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
        case .response:
            try pipeline.addHandler(ByteToMessageHandler(HTTPResponseDecoder()))
            for method in methods {
                let head = HTTPRequestHead(version: .http1_1, method: .init(rawValue: method), uri: "/")
                self.channel.write(HTTPClientRequestPart.head(head), promise: nil)
            }
        }
    }

    deinit { _ = try? self.channel.finish() }

    func feed(_ bytes: ArraySlice<UInt8>) {
        guard self.state == .open else { return }
        self.take { try self.channel.writeInbound(ByteBuffer(bytes: bytes)) }
    }

    func close() {
        guard self.state == .open else { return }
        self.take { _ = try self.channel.finish() }
    }

    private func take(_ body: () throws -> Void) {
        var failure: (any Error)?
        do { try body() } catch { failure = error }
        do {
            switch self.kind {
            case .request:
                while let part = try self.channel.readInbound(as: HTTPServerRequestPart.self) { self.take(part) }
            case .response:
                while let part = try self.channel.readInbound(as: HTTPClientResponsePart.self) { self.take(part) }
            }
        } catch { failure = error }
        guard let failure, self.state == .open else { return }
        switch failure as? HTTPParserError {
        case .invalidMethod, .invalidURL, .invalidVersion, .invalidConstant, .invalidStatus, .closedConnection,
            .headerOverflow:
            self.state = .over
        default: self.state = .refused
        }
    }

    private func take(_ part: HTTPServerRequestPart) {
        switch part {
        case .head(let head):
            let isUpgrade =
                head.headers.contains(name: "upgrade")
                && head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "upgrade" }
            self.isLast = isUpgrade || head.method == .CONNECT
        case .body(let buffer): self.body += UInt64(buffer.readableBytes)
        case .end: self.end()
        }
    }

    private func take(_ part: HTTPClientResponsePart) {
        switch part {
        case .head(let head): self.isLast = head.status.code == 101
        case .body(let buffer): self.body += UInt64(buffer.readableBytes)
        case .end: self.end()
        }
    }

    private func end() {
        self.bodies.append(self.body)
        self.body = 0
        if self.isLast { self.state = .over }
    }
}
