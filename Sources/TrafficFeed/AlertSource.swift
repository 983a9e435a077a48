public import TrafficModel

/// Where readers ask which alerts are in force. In the daemon this is what watches over the rules.
public protocol AlertSource: Sendable {
    /// As of the last sample, a few seconds ago.
    func alerts() -> AlertReport
}
