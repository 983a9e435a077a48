public import TrafficModel

/// A recording on the screen of `top`.
extension TopState {
    /// - Parameters:
    ///   - index: Of the snapshot in the recording.
    ///   - time: When it was taken, for people.
    ///   - request: What this answers.
    public mutating func receive(
        _ snapshot: Snapshot,
        at index: Int,
        time: String,
        for request: Replay.Request
    ) {
        // The answer to a key before the last one.
        guard request == self.replay?.request else { return }
        let isBack = self.replay?.show(index) ?? false
        // Rates that come later are not those before.
        if isBack || snapshot.takenBoottimeNanoseconds < self.live.snapshot?.takenBoottimeNanoseconds ?? 0 {
            self.live = Timeline()
        }
        self.replayTime = time
        self.receive(snapshot)
    }

    /// - Returns: Whether the action has another meaning in a recording.
    mutating func applyInReplay(_ action: Action) -> Bool {
        switch action {
        case .replay(let move): self.replay?.apply(move)
        case .togglePause: self.replay?.apply(.togglePause)
        default: return false
        }
        return true
    }

    /// Where in the recording the screen is.
    var replayNotices: [(text: String, role: Style.Role)] {
        guard let replay else { return [] }
        var notices: [(String, Style.Role)] = [
            ("recorded \(self.typeface.printable(self.replayTime)), \(replay.place)", .pinned)
        ]
        if let fault = replay.fault { notices.append((self.typeface.printable(fault), .warning)) }
        if case .lost(let reason) = self.connection { notices.append((self.typeface.printable(reason), .error)) }
        return notices
    }
}
