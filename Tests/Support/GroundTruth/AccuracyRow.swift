/// One line that trafficcheck prints: a scenario with a method on a kernel.
public struct AccuracyRow: Equatable, Sendable {
    public enum Status: String, Sendable {
        /// Equal in every byte and attribute.
        case exact
        case different
        /// This machine cannot make the traffic.
        case skipped
        /// The kernel refuses the method, so there is no scenario.
        case notOffered = "not offered"
        /// The run itself failed.
        case failed
    }

    public var kernel: String
    public var method: String
    /// What tells this run from others with the same method, such as `offloads on`. Empty where there is nothing to
    /// tell.
    public var variant = ""
    public var scenario = "-"
    /// `veth`: from one namespace to the other; `loopback`: within one.
    public var path = "-"
    public var status: Status
    /// What the generator's calls returned.
    public var payloadBytes: UInt64?
    public var payloadDifference: UInt64?
    /// IP packets that passed through the near namespace.
    public var wireBytes: UInt64?
    /// `nil` where the daemon has no wire bytes.
    public var wireDifference: UInt64?
    public var seconds: Double?
    public var details = ""

    public init(kernel: String, method: String, status: Status) {
        self.kernel = kernel
        self.method = method
        self.status = status
    }

    static let header = [
        "kernel", "method", "variant", "scenario", "path", "status", "payload_bytes", "payload_difference",
        "wire_bytes",
        "wire_difference", "seconds", "details",
    ]

    /// The names of the fields, which is the first line of the output.
    public static var headerLine: String { self.header.joined(separator: "\t") }

    /// Fields separated by tabs; `-` means unknown.
    public var line: String {
        var fields = [self.kernel, self.method, self.variant, self.scenario, self.path, self.status.rawValue]
        for number in [self.payloadBytes, self.payloadDifference, self.wireBytes, self.wireDifference] {
            fields.append(number.map(String.init) ?? "")
        }
        fields.append(self.seconds.map { String(($0 * 10).rounded() / 10) } ?? "")
        fields.append(self.details)
        return fields.map(Self.field).joined(separator: "\t")
    }

    private static func field(_ text: String) -> String {
        text.isEmpty ? "-" : text.replacing("\n", with: " | ").replacing("\t", with: " ")
    }

    /// - Returns: `nil` for any other line, such as the header.
    public init?(line: String) {
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        guard fields.count == Self.header.count, let status = Status(rawValue: fields[5]) else { return nil }
        self.init(kernel: fields[0], method: fields[1], status: status)
        self.variant = fields[2] == "-" ? "" : fields[2]
        self.scenario = fields[3]
        self.path = fields[4]
        self.payloadBytes = UInt64(fields[6])
        self.payloadDifference = UInt64(fields[7])
        self.wireBytes = UInt64(fields[8])
        self.wireDifference = UInt64(fields[9])
        self.seconds = Double(fields[10])
        self.details = fields[11] == "-" ? "" : fields[11]
    }
}
