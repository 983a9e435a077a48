import Foundation
import Synchronization
import TrafficReport

/// A daemon that keeps all records. It reads on a thread of its own: a socket's queue holds few datagrams
/// (`net.unix.max_dgram_qlen`), and a program that ends drops what finds it full. On a busy machine the records of one
/// test come in many datagrams.
public final class ReadingDaemon: Sendable {
    public let path: String
    /// What has arrived.
    public let records: Records
    private let numbers = Mutex<[UInt32]>([])
    private let isOver = Atomic<Bool>(false)
    private let end: Task<Void, any Error>

    /// - Parameter records: Gets each record as it comes.
    public init(path: String = ReportReceiver.freshPath(), _ records: Records = Records()) throws {
        let receiver = try ReportReceiver(path: path)
        (self.path, self.records) = (path, records)
        let (ends, end) = AsyncThrowingStream.makeStream(of: Void.self)
        self.end = Task { for try await _ in ends {} }
        Thread.detachNewThread { [self] in
            do {
                try receiver.read(until: { self.isOver.load(ordering: .acquiring) }) { arrived, sequences in
                    for record in arrived { records.observe(record) }
                    self.numbers.withLock { $0 += sequences }
                }
                end.finish()
            } catch {
                end.finish(throwing: error)
            }
        }
    }

    /// The numbers of the datagrams that have arrived.
    public var sequences: [UInt32] { self.numbers.withLock(\.self) }

    /// All records. Nothing more will be sent.
    @discardableResult
    public func stop() async throws -> Records {
        self.isOver.store(true, ordering: .releasing)
        try await self.end.value
        return self.records
    }
}
