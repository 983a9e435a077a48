/// Which packets the programs count (`--wire`). Each packet that a program sees costs time, so a user chooses how many
/// witnesses to pay for.
public enum WireCounting: String, Sendable, Codable, CaseIterable {
    /// No packet. The wire bytes of TCP and UDP are derived from TCP's own counters and from the calls on UDP sockets
    /// (`bpf/derive.bpf.h`).
    case derived
    /// The packets of sockets.
    case exact
    /// The packets of sockets, and once more all packets at the interface that they pass. So packets of no socket are
    /// counted too, and the audit goes down to the interfaces' own counters.
    case audited
}
