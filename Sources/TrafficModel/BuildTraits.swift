/// What this build of the package has. SwiftPM's options choose the traits, and by default all are on.
package enum BuildTraits {
    /// The trait `TLS`.
    package static var hasTLS: Bool {
        #if TLS
        true
        #else
        false
        #endif
    }

    /// To who asks for TLS and can't have it.
    package static let noTLS = "TLS is not in this program: it was built without the package's trait TLS"
}
