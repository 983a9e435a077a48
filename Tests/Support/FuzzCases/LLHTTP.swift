import NIOCore
import NIOEmbedded
import NIOHTTP1
import TrafficKit

/// llhttp, in NIO's decoder. Tells where messages end, how much body they have, and what their heads say.
final class LLHTTP {
    enum State: Hashable {
        case open
        /// llhttp refused something that decides a message's length or its fields.
        case refused
        /// llhttp stopped for the words of a first line, or for its own limits.
        case over
        /// No message comes after the last message: after an upgrade, or `Connection: close`.
        case ended
    }

    struct Message {
        /// Bytes fed when the head was complete. Heads of interim responses do not count.
        var headEnd: UInt64 = 0
        /// Bytes fed when the message was complete.
        var end: UInt64 = 0
        var body: UInt64 = 0
        var trailers = 0
        /// Only of a request.
        var method = ""
        var target = ""
        /// Only of a response.
        var status: UInt16 = 0
    }

    private let channel = EmbeddedChannel()
    private let kind: HTTP1Scanner.Kind
    private(set) var state = State.open
    /// The complete messages.
    private(set) var messages: [Message] = []
    private var message = Message()
    private var fed: UInt64 = 0
    /// Whether another protocol follows the message of the current head.
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
        self.fed += UInt64(bytes.count)
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
        case .closedConnection: self.state = .ended
        case .invalidMethod, .invalidURL, .invalidVersion, .invalidConstant, .invalidStatus, .headerOverflow:
            self.state = .over
        default: self.state = .refused
        }
    }

    private func take(_ part: HTTPServerRequestPart) {
        switch part {
        case .head(let head):
            let isUpgrade =
                head.headers.contains(name: "upgrade")
                && ["connection", "proxy-connection"].contains { name in
                    head.headers[canonicalForm: name].contains { $0.lowercased() == "upgrade" }
                }
            self.isLast = isUpgrade || head.method == .CONNECT
            self.message = Message(headEnd: self.fed, method: head.method.rawValue, target: head.uri)
        case .body(let buffer): self.message.body += UInt64(buffer.readableBytes)
        case .end(let trailers): self.end(trailers)
        }
    }

    private func take(_ part: HTTPClientResponsePart) {
        switch part {
        case .head(let head):
            self.isLast = head.status.code == 101
            self.message = Message(headEnd: self.fed, status: UInt16(clamping: head.status.code))
        case .body(let buffer): self.message.body += UInt64(buffer.readableBytes)
        case .end(let trailers): self.end(trailers)
        }
    }

    private func end(_ trailers: HTTPHeaders?) {
        self.message.end = self.fed
        self.message.trailers = trailers?.count ?? 0
        self.messages.append(self.message)
        if self.isLast { self.state = .ended }
    }
}
