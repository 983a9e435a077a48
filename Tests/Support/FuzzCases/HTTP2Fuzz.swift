public import TestSupport
import TrafficKit
import TrafficReport

/// Connections of HTTP/2. The library must say of each message what the writer has written, must say the same however
/// the bytes come in pieces, and must count each byte once. Of a damaged connection each byte must still be counted
/// once, in any pieces, and no more may be kept than the limits say.
public struct HTTP2Fuzz: FuzzSubject {
    public static let name = "http2"

    private let words = HuffmanWords()
    private static let dictionary: [[UInt8]] = [
        Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8), [0, 0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 1, 0, 9, 0, 0, 0, 1, 0],
        [0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 8], [0, 0, 4, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2],
        [0, 0, 1, 1, 5, 0, 0, 0, 3, 0x82],
        [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 9, 4, 0, 0, 0, 1], [0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82],
        [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88], [0, 0, 0, 4, 0, 0, 0, 0, 0], [0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1],
        [0, 0, 1, 1, 5, 0x7f, 0xff, 0xff, 0xff, 0x82], [0x3f, 0xe1, 0xff, 0x3f],
    ]

    private let isExtreme: Bool

    public init() { self.init(isExtreme: false) }

    /// - Parameter isExtreme: Each connection goes beyond the limits of streams and header blocks.
    public init(isExtreme: Bool) { self.isExtreme = isExtreme }

    public func run(_ random: inout Seeded) throws -> String? {
        var writer = HTTP2Writer(self.words, isExtreme: self.isExtreme, &random)
        let view = HTTP2Log.View(&random)
        let isWhole = random.isOne(in: 3)
        if isWhole { writer.close(view.ending) }
        var steps = writer.steps
        if !isWhole { Self.damage(&steps, &random) }
        let pieces = HTTP2Delivery.pieces(
            steps,
            mayTear: !writer.truth.isLate,
            fileSender: view.hasTLS ? nil : view.isClient,
            &random
        )
        let first = HTTP2Delivery.cut(pieces, longest: 16_384, &random)
        let log = HTTP2Log.read(first, view, &random)
        var text = log.gap(view) ?? (isWhole ? writer.truth.difference(log, view, first) : nil)
        if text == nil, !view.hasTLS {
            let other = HTTP2Log.read(HTTP2Delivery.cut(pieces, &random), view, &random)
            if other != log { text = "in other pieces: \(other), before: \(log)" }
        }
        return text.map { text in
            let shown = steps.prefix(200).map { "\($0.isClient ? ">" : "<") \($0.bytes.prefix(2_000).escaped)" }
            return "\(view), \(text):\n\(shown.joined(separator: "\n"))"
        }
    }

    private static func damage(_ steps: inout [HTTP2Writer.Step], _ random: inout Seeded) {
        for _ in 0..<random.number(1..<5) where !steps.isEmpty {
            let (index, other) = (random.number(0..<steps.count), random.number(0..<steps.count))
            steps[index].body = nil
            switch random.number(0..<9) {
            case 0: steps.swapAt(index, other)
            case 1: steps.insert(steps[index], at: other)
            case 2: steps.remove(at: index)
            case 3: steps.removeLast(min(steps.count - 1, random.number(0..<4)))
            case 4: steps[index].bytes.removeLast(random.number(0..<steps[index].bytes.count + 1))
            case 5:
                // The last byte of the length, the type, the flags, or a byte of the stream.
                let place = min(random.pick([2, 2, 3, 4, 4, 5, 8]), steps[index].bytes.count - 1)
                let value = UInt8(truncatingIfNeeded: random.next())
                if place >= 0 { steps[index].bytes[place] = random.isOne(in: 3) ? value : value & 15 }
            default: random.mutate(&steps[index].bytes, Self.dictionary, changes: 1)
            }
        }
    }
}

extension HTTP2Truth {
    /// - Returns: What the log says otherwise.
    func difference(_ log: HTTP2Log, _ view: HTTP2Log.View, _ pieces: [HTTP2Delivery.Piece]) -> String? {
        let added = self.tlsBytes(pieces, view)
        let known = Set(self.exchanges.indices.filter { self.isKnown($0) }.map { UInt64($0) + 1 })
        guard Set(log.exchanges.keys) == known else { return "exchanges \(log.exchanges.keys.sorted()), not \(known)" }
        for index in self.exchanges.indices where self.isKnown(index) {
            guard let record = log.exchanges[UInt64(index) + 1] else { return "no exchange \(index)" }
            if let text = self.difference(self.exchanges[index], record, view, added[index]) {
                return "stream \(self.exchanges[index].stream), \(text): \(record), not \(self.exchanges[index])"
            }
        }
        for side in [0, 1] {
            let seen = (side == 0) == view.isClient ? log.rest.sent : log.rest.received
            let rest = self.rest(side)
            guard seen.framing == rest.framing, seen.opaque == rest.opaque, seen.excluded == rest.excluded else {
                return "side \(side) has \(seen) beside messages, not \(rest)"
            }
        }
        return nil
    }

    private func isKnown(_ index: Int) -> Bool {
        self.exchanges[index].messages[0].hasHead && !self.exchanges[index].isPrivate
    }

    /// What TLS adds to each message, by direction: a record counts for the message that has its first byte.
    private func tlsBytes(_ pieces: [HTTP2Delivery.Piece], _ view: HTTP2Log.View) -> [[UInt64]] {
        var added = [[UInt64]](repeating: [0, 0], count: self.exchanges.count)
        guard view.hasTLS else { return added }
        var positions: [UInt64] = [0, 0]
        for piece in pieces {
            let side = piece.isClient ? 0 : 1
            if let exchange = self.owner(side, of: positions[side]) { added[exchange][side] += HTTP2Log.tlsBytes }
            positions[side] += UInt64(piece.bytes.count)
        }
        return added
    }

    private func difference(
        _ exchange: Exchange,
        _ record: Report.Exchange,
        _ view: HTTP2Log.View,
        _ added: [UInt64]
    ) -> String? {
        let route = (view.hasRoutes ? HTTP2Routes.prefix(exchange.stream) : "") + exchange.target
        guard record.name == Report.Name(method: exchange.method, host: exchange.host, route: route) else {
            return "name"
        }
        guard let outcome = record.outcome, outcome.ending == exchange.ending,
            outcome.status == exchange.messages[1].status
        else { return "outcome" }
        for side in [0, 1] {
            let seen = side == 0 ? record.request : record.response
            guard exchange.isTold(side) == (seen != nil) else { return "side \(side)" }
            guard let seen else { continue }
            guard seen == exchange.messages[side].reported(seen, view, added[side]) else { return "side \(side)" }
        }
        return nil
    }
}

extension HTTP2Truth.Message {
    /// - Parameter seen: The report that this one is compared with. With TLS its place is taken over.
    fileprivate func reported(
        _ seen: Report.Exchange.Message,
        _ view: HTTP2Log.View,
        _ tlsBytes: UInt64
    ) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = .init(from: view.base + self.from, to: view.base + self.to, bytes: self.bytes + tlsBytes)
        if view.hasTLS { (message.interval.from, message.interval.to) = (seen.interval.from, seen.interval.to) }
        message.bodyBytes = self.body
        message.decodedBodyBytes = self.isEncoded ? nil : self.body
        message.declaredBodyBytes = self.declared
        message.framingBytes = self.framing
        message.tlsBytes = tlsBytes
        message.lineBytes = UInt32(self.line)
        message.headerBytes = UInt32(self.header)
        message.cookieBytes = UInt32(self.cookie)
        message.status = self.status
        (message.version, message.quality) = (.http2, .exact)
        message.contentClass = self.body == 0 ? .none : self.isJSON ? .json : .unknown
        message.isIncomplete = !self.hasEnded
        return message
    }
}
