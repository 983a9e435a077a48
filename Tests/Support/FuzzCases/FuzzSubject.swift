public import TestSupport

/// A parser of this project, with a check of what it reads.
public protocol FuzzSubject: Sendable {
    /// The name on the command line.
    static var name: String { get }

    init() throws

    /// Runs one case.
    ///
    /// - Returns: What is wrong; `nil` where nothing is wrong.
    func run(_ random: inout Seeded) throws -> String?
}

public enum Fuzz {
    public static let subjects: [any FuzzSubject.Type] = [
        HTTP1Fuzz.self, HTTP2Fuzz.self, HPACKFuzz.self, TLSFuzz.self, DatagramFuzz.self, CaptureFuzz.self,
    ]

    public struct Finding: Error, CustomStringConvertible {
        /// The seed of this one case. The same seed with `--count 1` repeats the case.
        public let seed: UInt64
        public let text: String

        public var description: String { "seed \(self.seed): \(self.text)" }
    }

    /// Runs `count` cases, each with a seed of its own.
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
    /// Bytes as text, in the form of the traffic files.
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
