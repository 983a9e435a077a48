public import ArgumentParser
public import Logging
public import TrafficModel

/// What the values of options and of the file's keys look like.
package enum MethodOption: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, fexit, tracepoint, kprobe, poll, lifecycle

    /// `nil` for the best capture method.
    package var method: CaptureMethod? { CaptureMethod(rawValue: self.rawValue) }
}

package struct ListenOption: ExpressibleByArgument, Sendable {
    package var address: SocketAddress?

    package init(address: SocketAddress?) {
        self.address = address
    }

    /// `off`, `127.0.0.1:10419` or `[::1]:10419`.
    package init?(argument: String) {
        if argument == "off" { return }
        guard let colon = argument.lastIndex(of: ":"), let port = UInt16(argument[argument.index(after: colon)...])
        else {
            return nil
        }
        var host = argument[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        guard let address = InternetAddress(String(host)) else { return nil }
        self.address = SocketAddress(address: address, port: port)
    }

    package var defaultValueDescription: String { self.address?.description ?? "off" }
}

/// Where the capture stays when the daemon ends.
package enum PinPlace: Sendable, Hashable {
    /// Nowhere: the capture ends with the daemon.
    case off
    /// In ``PinDirectory/usualPath``, if there is such a place for this daemon. The service must count on a machine
    /// without a BPF file system, too.
    case auto
    case directory(String)
}

extension PinPlace: ExpressibleByArgument {
    package init?(argument: String) {
        switch argument {
        case "": return nil
        case "off": self = .off
        case "auto": self = .auto
        default: self = .directory(argument)
        }
    }

    package var defaultValueDescription: String {
        switch self {
        case .off: "off"
        case .auto: "auto"
        case .directory(let path): path
        }
    }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}

extension WireCounting: ExpressibleByArgument {}
