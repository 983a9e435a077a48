import CTrafficABI
import TrafficModel

/// What passed the interfaces: by their own counters and, where packets are seen, by ours.
struct InterfaceReader: ~Copyable {
    /// `nil` where packets are not seen.
    private let packets: BPFMap?
    private let interfaces: NetworkInterfaces

    init(packets: BPFMap?) {
        self.packets = packets
        self.interfaces = NetworkInterfaces()
    }

    /// Both of one moment, so that they can be compared: no packet passes between the two looks at ours. Under load that may not be had.
    func read(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        guard let map = self.packets else { return emit(.interfaces(try self.interfaces.read())) }
        var packets = try self.counters(map)
        for attempt in 1...20 {
            let interfaces = try self.interfaces.read()
            let before = packets
            packets = try self.counters(map)
            guard packets == before || attempt == 20 else { continue }
            emit(.packets(packets))
            return emit(.interfaces(interfaces))
        }
    }

    private func counters(_ map: BPFMap) throws(CaptureError) -> [InterfacePackets] {
        var packets: [InterfacePackets] = []
        for key in map.keys(as: traffic_interface_key.self) {
            packets.append(InterfacePackets(key, try map.perCPUValues(of: key, as: traffic_interface.self)))
        }
        return packets
    }
}
