/// Cuts the output of an iterator into records, which have two sizes. A record may be split over two reads.
package struct RecordSplitter {
    private var partial: [UInt8] = []

    package init() {}

    package mutating func split(_ piece: RawSpan, _ body: (RawSpan) -> Void) {
        var offset = 0
        while offset < piece.byteCount {
            if self.partial.isEmpty,
                let size = TrafficRecord.size(ofRecordIn: piece.extracting(offset..<piece.byteCount)),
                size <= piece.byteCount - offset
            {
                body(piece.extracting(offset..<offset + size))
                offset += size
                continue
            }
            let end = min(piece.byteCount, offset + self.missing)
            piece.extracting(offset..<end).withUnsafeBytes { self.partial.append(contentsOf: $0) }
            offset = end
            guard self.missing == 0 else { continue }
            body(self.partial.span.bytes)
            self.partial.removeAll()
        }
    }

    /// How many bytes the record lacks, or the beginning that tells its size.
    private var missing: Int {
        (TrafficRecord.size(ofRecordIn: self.partial.span.bytes) ?? TrafficRecord.headSize) - self.partial.count
    }
}
