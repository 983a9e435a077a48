import TrafficModel

// Types that the coder codes itself, in both directions. In JSON, a time is rounded, and an address is a text. The
// others are most of a checkpoint: for each container of fields, the standard library looks up types for as long as it
// takes to write many numbers. `CheckpointCoderTests.knownTypes` fails if one of them gets a further field.

extension CheckpointEncoder {
    /// - Returns: `false` for a value that codes itself.
    func writeKnown<Value>(_ value: Value) throws -> Bool {
        if let number = same(value, as: UInt64.self) {
            self.write(number)
        } else if let payload = same(value, as: PayloadBytes.self) {
            self.write(payload.sent)
            self.write(payload.received)
        } else if let wire = same(value, as: WireBytes.self) {
            self.write(wire.payload)
            self.write(wire.headers)
            self.write(wire.bare)
            self.write(wire.control)
        } else if let wire = same(value, as: SocketWire.self) {
            try self.write(wire.sent)
            try self.write(wire.received)
            try self.write(wire.quality)
        } else if let wire = same(value, as: WireTotals.self) {
            self.write(wire.sent)
            self.write(wire.received)
        } else if let rates = same(value, as: PayloadRates.self) {
            self.write(rates.sent)
            self.write(rates.received)
        } else if let process = same(value, as: ProcessIdentity.self) {
            self.write(process.pid)
            self.write(process.startBoottimeNanoseconds)
        } else if let end = same(value, as: SocketAddress.self) {
            self.write(end.address.bytes)
            self.write(end.port)
        } else if let address = same(value, as: InternetAddress.self) {
            self.write(address.bytes)
        } else if let time = same(value, as: Timestamp.self) {
            self.write(time.nanosecondsSinceEpoch)
        } else {
            return false
        }
        return true
    }
}

extension CheckpointDecoder {
    /// - Returns: `nil` for a type that decodes itself.
    func readKnown<Value>(_ type: Value.Type) throws -> Value? {
        if Value.self == UInt64.self {
            return same(try self.readNumber() as UInt64, as: type)
        } else if Value.self == PayloadBytes.self {
            return same(PayloadBytes(sent: try self.readNumber(), received: try self.readNumber()), as: type)
        } else if Value.self == WireBytes.self {
            let wire = WireBytes(
                payload: try self.readNumber(),
                headers: try self.readNumber(),
                bare: try self.readNumber(),
                control: try self.readNumber()
            )
            return same(wire, as: type)
        } else if Value.self == SocketWire.self {
            let wire = SocketWire(
                sent: try self.read(WireBytes.self),
                received: try self.read(WireBytes.self),
                quality: try self.read(Quality.self)
            )
            return same(wire, as: type)
        } else if Value.self == WireTotals.self {
            return same(WireTotals(sent: try self.readNumber(), received: try self.readNumber()), as: type)
        } else if Value.self == PayloadRates.self {
            return same(PayloadRates(sent: try self.readDouble(), received: try self.readDouble()), as: type)
        } else if Value.self == ProcessIdentity.self {
            let process = ProcessIdentity(
                pid: try self.readNumber(),
                startBoottimeNanoseconds: try self.readNumber()
            )
            return same(process, as: type)
        } else if Value.self == SocketAddress.self {
            let address = InternetAddress(bytes: try self.readBytes())
            return same(SocketAddress(address: address, port: try self.readNumber()), as: type)
        } else if Value.self == InternetAddress.self {
            return same(InternetAddress(bytes: try self.readBytes()), as: type)
        } else if Value.self == Timestamp.self {
            return same(Timestamp(nanosecondsSinceEpoch: try self.readNumber()), as: type)
        }
        return nil
    }
}

/// A cast that takes no time: only the same type passes.
@inline(__always)
private func same<Value, Known>(_ value: Value, as type: Known.Type) -> Known? {
    Value.self == Known.self ? unsafeBitCast(value, to: type) : nil
}
