import CNcurses
import Glibc
import TrafficView

extension StandardStream {
    /// Writes a frame as text. Uses colours where the options ask for them and the terminal that `TERM` names has them.
    ///
    /// - Throws: `OutputClosed` or `Failure.notWritten`.
    func write(_ frame: Frame, color: ColorOptions) throws {
        var status: Int32 = 0
        guard color.isWanted(self), unsafe setupterm(nil, self.descriptor, &status) == 0 else {
            return try self.write(frame.plainText)
        }
        let palette = Palette(colors: Int(unsafe tigetnum("colors")))
        let reset = sequence { buffer, size in unsafe screen_append_capability("sgr0", buffer, 0, size) }
        var text = ""
        for row in frame.rows {
            for span in row.spans {
                let look = palette.look(span.style)
                let start = sequence { buffer, size in
                    var length = 0
                    if look.isBold { length = unsafe screen_append_capability("bold", buffer, length, size) }
                    if look.isDim { length = unsafe screen_append_capability("dim", buffer, length, size) }
                    if look.isReversed || look.background != nil {
                        length = unsafe screen_append_capability("rev", buffer, length, size)
                    } else if let color = look.foreground {
                        length = unsafe screen_append_color(Int32(color), buffer, length, size)
                    }
                    return length
                }
                text += start.isEmpty ? span.text : start + span.text + reset
            }
            text += "\n"
        }
        try self.write(text)
    }
}

/// A control sequence from terminfo.
private func sequence(_ make: (UnsafeMutablePointer<CChar>, Int) -> Int) -> String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
        guard let start = buffer.baseAddress else { return "" }
        let length = unsafe make(start, buffer.count)
        return unsafe String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
