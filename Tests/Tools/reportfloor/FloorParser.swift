import CNIOLLHTTP

/// Finds the messages of one direction with llhttp, the parser that NIO itself has.
final class FloorParser {
    private struct Found {
        var messages = 0
        /// A sum without a meaning, so that the callbacks do something.
        var work: UInt64 = 0
    }

    private let parser = UnsafeMutablePointer<llhttp_t>.allocate(capacity: 1)
    private let settings = UnsafeMutablePointer<llhttp_settings_t>.allocate(capacity: 1)
    private let found = UnsafeMutablePointer<Found>.allocate(capacity: 1)

    init(_ type: llhttp_type) {
        self.found.initialize(to: Found())
        c_nio_llhttp_settings_init(self.settings)
        // What a library must get: the target, and names and values of fields.
        self.settings.pointee.on_url = { FloorParser.take($0, $2) }
        self.settings.pointee.on_header_field = { FloorParser.take($0, $2) }
        self.settings.pointee.on_header_value = { FloorParser.take($0, $2) }
        self.settings.pointee.on_message_complete = { FloorParser.end($0) }
        c_nio_llhttp_init(self.parser, type, self.settings)
        self.parser.pointee.data = UnsafeMutableRawPointer(self.found)
    }

    deinit {
        self.parser.deallocate()
        self.settings.deallocate()
        self.found.deallocate()
    }

    private static func found(_ parser: UnsafeMutablePointer<llhttp_t>?) -> UnsafeMutablePointer<Found>? {
        parser?.pointee.data?.assumingMemoryBound(to: Found.self)
    }

    private static func take(_ parser: UnsafeMutablePointer<llhttp_t>?, _ length: Int) -> CInt {
        Self.found(parser)?.pointee.work &+= UInt64(length)
        return 0
    }

    private static func end(_ parser: UnsafeMutablePointer<llhttp_t>?) -> CInt {
        Self.found(parser)?.pointee.messages &+= 1
        return 0
    }

    /// - Returns: Messages that end here.
    func read(_ bytes: UnsafeRawBufferPointer) -> Int {
        self.found.pointee.messages = 0
        let result = c_nio_llhttp_execute_swift(self.parser, bytes.baseAddress, bytes.count)
        precondition(result == HPE_OK, "llhttp refuses what passes")
        return self.found.pointee.messages
    }

    var work: UInt64 { self.found.pointee.work }
}
