/// A parser of ours, and another's that it is compared with.
public protocol FuzzSubject: Sendable {
    /// As the command says it.
    static var name: String { get }

    init() throws

    /// One case.
    ///
    /// - Returns: What is wrong; `nil`: nothing.
    func run(_ random: inout Seeded) throws -> String?
}

public enum Fuzz {
    public static let subjects: [any FuzzSubject.Type] = [
        HTTP1Fuzz.self, HPACKFuzz.self, TLSFuzz.self, DatagramFuzz.self, CaptureFuzz.self,
    ]

    public struct Finding: Error, CustomStringConvertible {
        /// Of this one case: `--count 1` and this bring it back.
        public let seed: UInt64
        public let text: String

        public var description: String { "seed \(self.seed): \(self.text)" }
    }

    /// Runs so many cases, each with a seed of its own.
    ///
    /// - Throws: The first finding.
    public static func run(_ type: any FuzzSubject.Type, seed: UInt64, count: Int) throws {
        let subject = try type.init()
        for number in 0..<UInt64(count) {
            var random = Seeded(seed &+ number)
            if let text = try subject.run(&random) { throw Finding(seed: seed &+ number, text: text) }
        }
    }
}

extension Sequence<UInt8> {
    /// Bytes as text, as the traffic files have them.
    var escaped: String {
        self.map { byte in
            switch byte {
            case UInt8(ascii: "\r"): "\\r"
            case UInt8(ascii: "\n"): "\\n"
            case UInt8(ascii: "\t"): "\\t"
            case UInt8(ascii: "\\"): "\\\\"
            case 32..<127: String(UnicodeScalar(byte))
            default: "\\x" + String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
            }
        }.joined()
    }
}
