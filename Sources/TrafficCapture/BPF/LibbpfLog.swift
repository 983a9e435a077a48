import CLibbpf
import Glibc
import Synchronization

/// Collects the messages that libbpf would print to stderr, so that the daemon can report why a load was refused.
enum LibbpfLog {
    private static let lines = Mutex<[String]>([])

    /// Replaces libbpf's default printer for the whole process. Idempotent.
    static func install() {
        libbpf_set_print { level, format, arguments in
            guard level != LIBBPF_DEBUG, let format, let arguments else { return 0 }
            var buffer = [CChar](repeating: 0, count: 4096)
            let length = vsnprintf(&buffer, buffer.count, format, arguments)
            let line = String(decoding: buffer.prefix(while: { $0 != 0 }).map(UInt8.init(bitPattern:)), as: UTF8.self)
            LibbpfLog.lines.withLock { lines in
                // A verifier log is long, and the reason is at its end.
                if lines.count >= 200 { lines.removeFirst(100) }
                lines.append(line.trimmed)
            }
            return length
        }
    }

    static func take() -> [String] {
        self.lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}

extension String {
    var trimmed: String {
        var view = self[...]
        while let last = view.last, last.isWhitespace { view.removeLast() }
        while let first = view.first, first.isWhitespace { view.removeFirst() }
        return String(view)
    }
}
