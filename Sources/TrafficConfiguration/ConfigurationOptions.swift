public import ArgumentParser
public import Logging
public import TrafficCapture
package import TrafficModel

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

extension Logger.Level: @retroactive ExpressibleByArgument {}

extension WireCounting: ExpressibleByArgument {}
