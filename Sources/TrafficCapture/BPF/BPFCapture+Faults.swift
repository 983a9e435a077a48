package import TrafficModel

/// For tests: a capture with little room, or on a kernel that refuses programs.
extension BPFCapture {
    package convenience init(
        method: CaptureMethod,
        ringBytes: UInt32? = nil,
        mapElements: UInt32? = nil,
        deferredElements: UInt32? = nil,
        interfaceElements: UInt32? = nil,
        rowElements: UInt32? = nil,
        leavingOut leftOut: Set<String> = [],
        refusing refused: Set<String> = [],
        wire: WireCounting = .audited,
        outlivesDaemon: Bool = false
    ) throws(CaptureError) {
        let faults = LoadedPrograms.Faults(
            leftOut: leftOut,
            refused: refused,
            ringBytes: ringBytes,
            mapElements: mapElements,
            deferredElements: deferredElements,
            interfaceElements: interfaceElements,
            rowElements: rowElements
        )
        try self.init(method: method, reason: nil, wire: wire, outlivesDaemon: outlivesDaemon, faults: faults)
    }
}
