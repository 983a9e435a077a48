import TrafficConfiguration

/// A failed start: what to say, and an exit code (sysexits.h).
struct StartFailure: Error, CustomStringConvertible {
    var code: Int32
    /// As it is, for messages that name their own place.
    var isWhole = false
    var message: String

    /// Printed as a line that begins with the program's name.
    var description: String { self.isWhole ? self.message : "trafficd: \(self.message)" }
}

extension StartFailure {
    init(_ fault: ConfigurationFault) {
        self.init(code: 78, isWhole: true, message: fault.lines.joined(separator: "\n"))
    }
}
