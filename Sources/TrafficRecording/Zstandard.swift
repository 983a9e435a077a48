import CZstd
import Glibc

/// Makes Zstandard frames (RFC 8878), each with a checksum of its contents.
struct Compressor: ~Copyable {
    private let context: OpaquePointer

    /// - Throws: ``RecordingError/notCompressed(reason:)``.
    init() throws(RecordingError) { self.context = try Self.makeContext() }

    private static func makeContext() throws(RecordingError) -> OpaquePointer {
        guard let context = ZSTD_createCCtx() else { throw .notCompressed(reason: "no memory") }
        // A snapshot is like the one before, which is often further back than the usual window reaches.
        for (parameter, value) in [
            (ZSTD_c_compressionLevel, Int32(3)), (ZSTD_c_checksumFlag, 1), (ZSTD_c_windowLog, Self.windowLog),
            (ZSTD_c_enableLongDistanceMatching, 1),
        ] {
            do throws(RecordingError) {
                try Self.check(ZSTD_CCtx_setParameter(context, parameter, value))
            } catch {
                ZSTD_freeCCtx(context)
                throw error
            }
        }
        return context
    }

    /// The window is 2 to this power: 16 MiB. `zstd -d` takes up to 27 without being asked.
    static let windowLog: Int32 = 24

    deinit { ZSTD_freeCCtx(self.context) }

    private static func check(_ result: Int) throws(RecordingError) {
        guard ZSTD_isError(result) != 0 else { return }
        throw .notCompressed(reason: String(cString: ZSTD_getErrorName(result)))
    }

    /// - Parameter endsFrame: Ends the frame. Otherwise its blocks end here: a reader can decode all of `bytes` from what
    ///   is returned.
    /// - Throws: ``RecordingError/notCompressed(reason:)``.
    func compress(_ bytes: [UInt8], endsFrame: Bool) throws(RecordingError) -> [UInt8] {
        var result: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: ZSTD_CStreamOutSize())
        var rest = 0
        bytes.withUnsafeBytes { source in
            var input = ZSTD_inBuffer(src: source.baseAddress, size: source.count, pos: 0)
            repeat {
                let written = piece.withUnsafeMutableBytes { target in
                    var output = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
                    rest = ZSTD_compressStream2(self.context, &output, &input, endsFrame ? ZSTD_e_end : ZSTD_e_flush)
                    return output.pos
                }
                result += piece[..<written]
            } while ZSTD_isError(rest) == 0 && (rest > 0 || input.pos < input.size)
        }
        try Self.check(rest)
        return result
    }
}

/// Decodes the frames of a file.
struct FrameReader: ~Copyable {
    enum End: Equatable {
        /// The checksum is right.
        case whole
        /// The file ends within the frame.
        case cut
        case damaged
        /// The frame has more bytes than anything that we write.
        case tooLong
        /// There is no further frame.
        case none
        /// - Parameter error: errno.
        case unreadable(error: Int32)
    }

    private let context: OpaquePointer
    private let file: ReadableFile
    private var input: [UInt8] = []
    private var position = 0
    /// Where ``input`` begins in the file.
    private var inputOffset: Int64

    private static let pieceSize = 1 << 18
    /// Kept, because a file may have a frame for every few bytes.
    private var piece = [UInt8](repeating: 0, count: pieceSize)

    /// - Parameter offset: Of the first frame.
    /// - Returns: `nil` without memory.
    init?(_ file: ReadableFile, at offset: Int64) {
        guard let context = ZSTD_createDCtx() else { return nil }
        (self.context, self.file, self.inputOffset) = (context, file, offset)
    }

    deinit { ZSTD_freeDCtx(self.context) }

    /// Where the next frame begins.
    var offset: Int64 { self.inputOffset + Int64(self.position) }

    /// Decodes the next frame.
    ///
    /// - Parameters:
    ///   - contents: Gets what could be decoded. The bytes of a damaged frame mean nothing.
    ///   - limit: The most bytes that a frame may have.
    mutating func next(into contents: inout [UInt8], limit: Int) -> End {
        contents.removeAll(keepingCapacity: true)
        ZSTD_DCtx_reset(self.context, ZSTD_reset_session_only)
        var hasBegun = false
        while true {
            if self.position == self.input.count {
                let before = self.offset
                switch self.file.read(at: before, count: Self.pieceSize) {
                case .success(let bytes): (self.input, self.position, self.inputOffset) = (bytes, 0, before)
                case .failure(let failure): return .unreadable(error: failure.error)
                }
                if self.input.isEmpty, !hasBegun { return .none }
            }
            let isAtEnd = self.input.isEmpty
            hasBegun = true
            var (result, written) = (0, 0)
            self.input.withUnsafeBytes { source in
                var input = ZSTD_inBuffer(src: source.baseAddress, size: source.count, pos: self.position)
                written = self.piece.withUnsafeMutableBytes { target in
                    var output = ZSTD_outBuffer(dst: target.baseAddress, size: target.count, pos: 0)
                    result = ZSTD_decompressStream(self.context, &output, &input)
                    return output.pos
                }
                self.position = input.pos
            }
            guard ZSTD_isError(result) == 0 else {
                return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? .unreadable(error: ENOMEM) : .damaged
            }
            contents += self.piece[..<written]
            guard contents.count <= limit else { return .tooLong }
            if result == 0 { return .whole }
            if isAtEnd, written == 0 { return .cut }
        }
    }
}
