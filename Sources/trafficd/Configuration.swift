import TrafficCapture
import TrafficHistory
import TrafficModel

/// What a daemon is told. A value: whoever has it knows all of it, wherever it came from.
struct Configuration: Sendable, Hashable {
    /// Where `control.sock` and `report.sock` are.
    var runtimeDirectory = "/run/trafficd"
    /// Where the API listens over TCP. `nil`: nowhere.
    var listen: SocketAddress?
    /// The names by which clients over TCP may call this host, beside its addresses and `localhost`.
    var allowedHosts: Set<String> = []
    /// `nil`: the best method that the kernel offers.
    var method: CaptureMethod?
    var wire = WireCounting.exact
    /// Between two snapshots.
    var interval = Duration.seconds(1)
    /// How long an ended process stays listed.
    var keepExited = Duration.seconds(300)
    /// Where history is kept. `nil`: nowhere.
    var stateDirectory: String?
    var historyRetention = HistoryRetention.default
    var pinDirectory = PinPlace.off
    /// The file that gets every event of the capture. `nil`: none.
    var recordEvents: String?
    var classes = AddressClasses()
}
