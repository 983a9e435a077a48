public import TrafficModel

/// What a sum of history counts.
public enum HistoryAmounts: Sendable, Hashable {
    /// Of sockets: by process, scope, class, or in all.
    case bytes(ByteCounts)
    /// Of the HTTP messages that cooperating programs report.
    case messages(EndpointCounts)
    /// Of interfaces.
    case packets(InterfaceCounts)

    var ofSockets: ByteCounts? { if case .bytes(let bytes) = self { bytes } else { nil } }

    /// Bytes both ways: payload, messages, or what the interface counts. Rows are in this order.
    public var sum: PayloadBytes {
        switch self {
        case .bytes(let bytes): bytes.payload
        case .messages(let counts): PayloadBytes(sent: counts.sent.message, received: counts.received.message)
        case .packets(let counts): PayloadBytes(sent: counts.sentBytes, received: counts.receivedBytes)
        }
    }

    /// Amounts of two kinds never meet: a series has amounts of one kind.
    package static func += (left: inout Self, right: Self) {
        switch (left, right) {
        case (.bytes(let sum), .bytes(let more)): left = .bytes(sum + more)
        case (.messages(var sum), .messages(let more)):
            sum += more
            left = .messages(sum)
        case (.packets(var sum), .packets(let more)):
            sum += more
            left = .packets(sum)
        default: assertionFailure("amounts of two kinds")
        }
    }

    /// Nothing of the same kind.
    package var zero: Self {
        switch self {
        case .bytes: .bytes(ByteCounts())
        case .messages: .messages(EndpointCounts())
        case .packets: .packets(InterfaceCounts())
        }
    }
}

extension HistoryAmounts: Decodable {
    public init(from decoder: any Decoder) throws {
        let messages = try decoder.container(keyedBy: EndpointCounts.HistoryKeys.self)
        let packets = try decoder.container(keyedBy: InterfaceCounts.CodingKeys.self)
        if messages.contains(.requests) {
            self = .messages(try EndpointCounts(messages))
        } else if packets.contains(.sentPackets) {
            self = .packets(try InterfaceCounts(from: decoder))
        } else {
            self = .bytes(try ByteCounts(from: decoder))
        }
    }
}

extension EndpointCounts {
    /// The fields of a row of history.
    package enum HistoryKeys: String, CodingKey {
        case requests, ended, failures
        case sentMessage = "sent_message_bytes"
        case receivedMessage = "received_message_bytes"
        case sentHeader = "sent_header_bytes"
        case receivedHeader = "received_header_bytes"
        case sentBody = "sent_body_bytes"
        case receivedBody = "received_body_bytes"
    }

    fileprivate init(_ container: KeyedDecodingContainer<HistoryKeys>) throws {
        func number(_ key: HistoryKeys) throws -> UInt64 { try container.decode(UInt64.self, forKey: key) }
        func parts(_ message: HistoryKeys, _ header: HistoryKeys, _ body: HistoryKeys) throws -> MessageParts {
            let (header, body) = (try number(header), try number(body))
            return MessageParts(header: header, body: body, rest: try number(message) -| header -| body)
        }
        self.init(
            requests: try number(.requests),
            ended: try number(.ended),
            failures: try number(.failures),
            sent: try parts(.sentMessage, .sentHeader, .sentBody),
            received: try parts(.receivedMessage, .receivedHeader, .receivedBody)
        )
    }
}
